"""A callable is given the parameters it names, and supports what they can express."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from harness.worker.target import Spec, Split, Target, TensorCase, Unavailable
from harness.worker.targets import function

_NUMBERS = itertools.count()

SPEC = Spec("grpo", "token", 0.0, 0.1, 0.3, max_completion_length=17)


def tensor_case(off_policy: bool = False, **changes: Any) -> TensorCase:
    """Two completions of three tokens."""
    logps = torch.full((2, 3), -1.0, requires_grad=True)
    return TensorCase(
        dtype=torch.float32,
        device=torch.device("cpu"),
        logps=logps,
        old_logps=torch.full((2, 3), -1.5) if off_policy else None,
        ref_logps=torch.full((2, 3), -2.0),
        advantages=torch.ones(2),
        mask=torch.ones((2, 3), dtype=torch.bool),
        spec=replace(SPEC, **changes),
        split=Split(),
    )


@pytest.fixture
def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Write a module and open its `loss`."""
    monkeypatch.syspath_prepend(tmp_path)

    def open_it(source: str, path: str = "loss", **options: str) -> Target:
        # A module is imported once in a process, so each is another.
        module = f"opened_{next(_NUMBERS)}"
        (tmp_path / f"{module}.py").write_text(source)
        return function.open_target(f"{module}:{path}", options)

    return open_it


def test_a_callable_gets_what_it_names_by_name(opened: Any) -> None:
    """Tensors and options, in any order, keyword-only too; a default of its own is left alone."""
    target = opened(
        "seen = {}\n"
        "def loss(mask, beta, logps, *, ref_logps, old_logps=None, advantages, temperature=2.0,\n"
        "         loss_type, importance_sampling_level, epsilon_low, epsilon_high, max_completion_length):\n"
        "    seen.update(locals())\n"
        "    return logps.sum(), 'metrics'\n"
        "loss.seen = seen\n"
    )
    case = tensor_case(True, beta=0.5, loss_type="dr_grpo", importance_sampling_level="sequence")
    assert target.refusal(case) is None
    assert target.loss(case).item() == -6.0
    seen = target._function.seen  # type: ignore[attr-defined] # the callable of the test
    assert {name: seen[name] for name in case.tensors} == case.tensors
    named = [name for name in function._OPTIONS if name in seen]
    assert [seen[name] for name in named] == ["dr_grpo", "sequence", 0.5, 0.1, 0.3, 17]
    assert seen["temperature"] == 2.0
    assert target.supports.loss_types == ("grpo", "bnpo", "dr_grpo", "dapo", "cispo", "luspo")
    assert set(target.supports.options) == {"beta", "old_logps", "token_advantages"}


@pytest.mark.parametrize(
    ("parameters", "case", "lacks"),
    [
        ("", tensor_case(importance_sampling_level="sequence"), "importance_sampling_level"),
        ("ref_logps", tensor_case(beta=0.04), "beta"),
        ("beta", tensor_case(beta=0.04), "ref_logps"),
        ("epsilon_low, epsilon_high", tensor_case(True), "old_logps"),
        ("old_logps, epsilon_high", tensor_case(True), "epsilon_low"),
        ("old_logps, epsilon_low", tensor_case(True), "epsilon_high"),
        ("loss_type", tensor_case(loss_type="cispo"), "epsilon_high"),
        ("loss_type", tensor_case(loss_type="dr_grpo"), "max_completion_length"),
    ],
)
def test_what_a_callable_has_no_parameter_for_is_unsupported(
    opened: Any, parameters: str, case: TensorCase, lacks: str
) -> None:
    """The reason names the parameter; ignoring an option silently would be judged a divergence."""
    rest = f", {parameters}" if parameters else ""
    options = {} if "loss_type" in parameters else {"loss_type": "grpo"}
    target = opened(f"def loss(logps, advantages, mask{rest}): ...", **options)
    assert f"has no parameter {lacks}, which" in target.refusal(case)


def test_what_a_callable_does_not_need_it_need_not_name(opened: Any) -> None:
    """On-policy no clip acts, and cispo has no lower bound."""
    target = opened("def loss(logps, advantages, mask): ...", loss_type="grpo")
    assert target.refusal(tensor_case()) is None
    source = "def loss(logps, old_logps, advantages, mask, epsilon_high): ..."
    target = opened(source, loss_type="cispo")
    assert target.refusal(tensor_case(True, loss_type="cispo")) is None
    assert target.supports.loss_types == ("cispo",)
    assert "loss_type 'grpo' is not supported" in target.refusal(tensor_case())


def test_the_option_narrows_a_callable_of_many_losses_to_one(opened: Any) -> None:
    """The others are then unsupported, not asked for."""
    target = opened("def loss(logps, advantages, mask, loss_type): ...", loss_type="bnpo")
    assert target.supports.loss_types == ("bnpo",)


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        ("logps, advantages, mask, rewards", "requires 'rewards', which is not offered; offered are logps, old_"),
        ("logps, advantages, mask, **options", "takes \\*\\*options, which does not say what it supports"),
        ("logps, advantages, *mask", "takes \\*mask, but arguments are passed by name"),
        ("logps, advantages, mask, /", "takes logps by position only"),
        ("logps, advantages", "has no parameter 'mask', which every loss needs"),
        ("logps, mask", "has no parameter 'advantages', which every loss needs"),
        ("advantages, mask", "has no parameter 'logps', which every loss needs"),
    ],
)
def test_parameters_that_cannot_be_mapped_are_refused(opened: Any, parameters: str, says: str) -> None:
    """At the start, with what is offered."""
    with pytest.raises(Unavailable, match=says) as caught:
        opened(f"def loss({parameters}): ...", loss_type="grpo")
    assert caught.value.kind == "unknown"
    assert "offered are logps" in str(caught.value)


def test_a_callable_of_one_loss_must_say_which(opened: Any) -> None:
    """The hint names the option and its values."""
    with pytest.raises(Unavailable, match="it must be said which loss it is") as caught:
        opened("def loss(logps, advantages, mask): ...")
    assert caught.value.hint == "pass --loss-type, one of grpo, bnpo, dr_grpo, dapo, cispo, sapo, luspo, vespo"
    with pytest.raises(Unavailable, match="no loss_type 'gppo'"):
        opened("def loss(logps, advantages, mask): ...", loss_type="gppo")


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("los", "has no los"),
        ("loss.inner", "has no loss.inner"),
        ("Loss", "is a class; a function is needed"),
        ("number", "is of type int; a function is needed"),
    ],
)
def test_what_is_no_function_is_refused(opened: Any, path: str, says: str) -> None:
    """A name that is not there, a class, a number."""
    with pytest.raises(Unavailable, match=says):
        opened("number = 1\nclass Loss: ...\ndef loss(logps, advantages, mask): ...", path)


def test_a_method_of_an_object_is_a_callable(opened: Any) -> None:
    """A dotted path reaches into the module."""
    source = "class Loss:\n    @staticmethod\n    def compute(logps, advantages, mask): return logps.sum()"
    assert opened(source, "Loss.compute", loss_type="grpo").loss(tensor_case()).item() == -6.0


def test_a_module_that_is_not_there_differs_from_one_that_is_broken(opened: Any) -> None:
    """The first is a wrong name, the second the target's own trouble."""
    with pytest.raises(Unavailable, match="no module named 'nowhere_to_be_found' here"):
        function.open_target("nowhere_to_be_found.losses:loss", {})
    with pytest.raises(ModuleNotFoundError, match="missing_dependency"):
        opened("import missing_dependency")
