"""Whatever can be called and says what it takes is a target: objects, modules, partials, scripted and compiled."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from harness.worker.target import Target, TensorCase, Unavailable
from tests.worker.user_code import open_source, tensor_case

SOURCE = """
import functools
import torch
from torch import Tensor

def general(logps, advantages, mask, old_logps=None, beta=0.0, epsilon_low=0.2, epsilon_high=0.2):
    ratio = torch.exp(logps - (logps.detach() if old_logps is None else old_logps))
    clipped = ratio.clamp(1 - epsilon_low, 1 + epsilon_high)
    return -(torch.min(ratio, clipped) * advantages[:, None] * mask).sum()

class Object:
    def __call__(self, logps, old_logps, advantages, mask, epsilon_low, epsilon_high):
        return general(logps, advantages, mask, old_logps, 0.0, epsilon_low, epsilon_high)

    def method(self, logps, old_logps, advantages, mask, epsilon_low, epsilon_high):
        return self(logps, old_logps, advantages, mask, epsilon_low, epsilon_high)

class Module(torch.nn.Module):
    def forward(self, logps, advantages, mask, old_logps, epsilon_low: float, epsilon_high: float):
        return general(logps, advantages, mask, old_logps, 0.0, epsilon_low, epsilon_high)

class Scripted(torch.nn.Module):
    def forward(self, logps, advantages, mask, old_logps, epsilon_low: float, epsilon_high: float):
        ratio = torch.exp(logps - old_logps)
        clipped = ratio.clamp(1 - epsilon_low, 1 + epsilon_high)
        return -(torch.min(ratio, clipped) * advantages.unsqueeze(1) * mask).sum()

fixed = functools.partial(general, epsilon_low=0.5)
bound = functools.partial(general, old_logps=None)
an_object = Object()
module = Module()
compiled = torch.compile(general, backend="eager")
compiled_module = torch.compile(Module(), backend="eager")
"""

SCRIPTED = """
import warnings
with warnings.catch_warnings():
    # TorchScript is deprecated, and still what some losses are written in.
    warnings.simplefilter("ignore")
    scripted_module = torch.jit.script(Scripted())

    @torch.jit.script
    def scripted(logps: Tensor, old_logps: Tensor, advantages: Tensor, mask: Tensor, eps_low: float,
                 eps_high: float, num_items_in_batch: int, temperature: float = 1.0) -> Tensor:
        ratio = torch.exp(logps - old_logps)
        clipped = ratio.clamp(1 - eps_low, 1 + eps_high)
        assert num_items_in_batch == 6
        return -(torch.min(ratio, clipped) * advantages.unsqueeze(1) * mask).sum()
"""

# Six tokens of ratio e^0.5, clipped at 1.3.
CLIPPED = pytest.approx(-6 * 1.3)


@pytest.fixture
def opened(tmp_path: Path) -> Callable[..., Target]:
    """Open something of the user's module, as grpo."""

    def open_it(path: str, source: str = SOURCE) -> Target:
        return open_source(tmp_path, source, path, loss_type="grpo")

    return partial(open_it)


def off_policy() -> TensorCase:
    return tensor_case(True)


@pytest.mark.parametrize("path", ["an_object", "an_object.method", "module", "compiled", "compiled_module"])
def test_what_can_be_called_is_a_target(opened: Any, path: str) -> None:
    """Its parameters are those that a caller sees, not those of a wrapper around it."""
    target = opened(path)
    assert target.refusal(off_policy()) is None
    assert target.loss(off_policy()).item() == CLIPPED


@pytest.mark.parametrize("path", ["scripted", "scripted_module"])
def test_what_is_scripted_is_given_the_types_that_it_takes(opened: Any, path: str) -> None:
    """Its schema names and types them: a count is an integer there."""
    target = opened(path, SOURCE + SCRIPTED)
    assert target.refusal(off_policy()) is None
    assert target.loss(off_policy()).item() == CLIPPED
    # A tensor that is not optional cannot be left out.
    with pytest.raises(Exception, match="must be given old_logps, and the case has none"):
        target.loss(tensor_case())


def test_what_a_partial_fixes_is_no_parameter(opened: Any) -> None:
    """Else the case's value would replace the one that was fixed."""
    target = opened("fixed")
    assert "has no parameter epsilon_low" in target.refusal(off_policy())
    assert target.refusal(tensor_case()) is None
    assert target.loss(off_policy()).item() == CLIPPED
    assert "old_logps" not in opened("bound").supports.options


def test_the_method_of_a_class_is_no_callable_yet(opened: Any) -> None:
    """It lacks its object: the hint says so."""
    with pytest.raises(Unavailable, match="requires 'self'") as caught:
        opened("Object.method")
    assert caught.value.hint == "name the method of an object, not of a class"


def test_a_callable_that_does_not_say_what_it_takes(opened: Any) -> None:
    """A builtin without a signature."""
    with pytest.raises(Unavailable, match="does not say what its parameters are"):
        opened("dict.update", "import builtins\nfrom builtins import dict")


def test_a_class_with_compute_loss_is_a_trainer(opened: Any) -> None:
    """It goes to where trainers are driven, which asks for its configuration."""
    with pytest.raises(Unavailable, match="does not say which class configures it"):
        opened("Trainer", "class Trainer:\n    def compute_loss(self, model, inputs): ...")
