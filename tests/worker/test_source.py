"""Where a target says that its loss is written: reports point there."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from harness.client import WorkerClient
from harness.worker.source import source_of
from tests.worker.fetched import opened


def plain(logps: torch.Tensor) -> torch.Tensor:
    return logps.sum()


def wrapping(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def inner(*arguments: Any) -> Any:
        return function(*arguments)

    return inner


@wrapping
def decorated(logps: torch.Tensor) -> torch.Tensor:
    return logps.sum()


class Loss:
    def __call__(self, logps: torch.Tensor) -> torch.Tensor:
        return logps.sum()

    def method(self, logps: torch.Tensor) -> torch.Tensor:
        return logps.sum()


class Module(torch.nn.Module):
    def forward(self, logps: torch.Tensor) -> torch.Tensor:
        return logps.sum()


@pytest.mark.parametrize(
    ("found", "written"),
    [
        (plain, plain),
        (functools.partial(plain), plain),
        (functools.partial(functools.partial(wrapping(plain))), plain),
        (decorated, decorated.__wrapped__),  # type: ignore[attr-defined]  # functools.wraps sets it
        (Loss(), Loss.__call__),
        (Loss().method, Loss.method),
        (Module(), Module.forward),
        (torch.compile(plain, backend="eager"), plain),
        (torch.compile(Module(), backend="eager"), Module.forward),
    ],
    ids=[
        "function",
        "partial",
        "nested",
        "decorated",
        "object",
        "method",
        "module",
        "compiled",
        "compiled module",
    ],
)
def test_what_is_called_is_found_where_it_is_written(found: Any, written: Any) -> None:
    """Wrappers are looked through; the line is the first of the definition, with its decorators."""
    source = source_of(found)
    assert source is not None
    assert Path(source.file) == Path(__file__).resolve()
    assert source.line == written.__code__.co_firstlineno


class Endless:
    """Hands every question on to itself."""

    def __getattr__(self, name: str) -> Any:
        return self


class Raising:
    """Raises, whatever is asked."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)


def typed_in() -> Any:
    scope: dict[str, Any] = {}
    exec("def loss(logps): return logps.sum()", scope)
    return scope["loss"]


@pytest.mark.parametrize(
    "found",
    [torch.ops.aten.sum, torch.ops.aten.sum.default, torch.sum, len, typed_in(), Endless(), Raising(), None],
    ids=["operator", "overload", "built in", "of Python", "typed in", "endless", "raising", "nothing"],
)
def test_what_is_written_nowhere_has_no_source(found: Any) -> None:
    """What is compiled, what no file holds, and what only misleads: no place rather than a wrong one."""
    assert source_of(found) is None


def line_of(source: Any) -> str:
    """The line of the definition itself, below its decorators."""
    lines = Path(source.file).read_text().splitlines()[source.line - 1 :]
    return next(line.strip() for line in lines if line.strip().startswith("def "))


@pytest.mark.parametrize(
    ("release", "file", "name"),
    [
        ("trl==0.14.0", "trainer/grpo_trainer.py", "compute_loss"),
        ("liger==0.8.5", "chunked_loss/grpo_loss.py", "ppo_loss_fn"),
        ("verl==0.9.1", "trainer/ppo/core_algos.py", "compute_policy_loss_vanilla"),
        ("openrlhf==0.11.2", "models/loss.py", "forward"),
        ("unsloth==2026.10.9", "rl_replacements.py", "grpo_compute_loss"),
    ],
)
def test_a_library_says_where_its_loss_is(release: str, file: str, name: str) -> None:
    """It is the method or function that is driven."""
    with opened(release) as one:
        source = one.facts.source
    assert source is not None
    assert source.file.endswith(os.sep + file)
    assert line_of(source).startswith(f"def {name}(")


FORK = """
from trl import GRPOConfig, GRPOTrainer

class Inner(GRPOTrainer):
    def __init__(self, args: GRPOConfig, **rest):
        super().__init__(args=args, **rest)

    def _compute_loss(self, model, inputs):
        return super()._compute_loss(model, inputs)

class Outer(Inner):
    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        return super().compute_loss(model, inputs, return_outputs, num_items_in_batch)
"""


@pytest.mark.parametrize(("trainer", "name"), [("Inner", "_compute_loss"), ("Outer", "compute_loss")])
def test_a_fork_is_pointed_to_in_its_own_file(trainer: str, name: str, tmp_path: Path) -> None:
    """What a fork overrides is what its loss runs through first."""
    (tmp_path / "fork.py").write_text(FORK)
    with WorkerClient(sys.executable, f"fork:{trainer}", cwd=tmp_path) as client:
        source = client.facts.source
    assert source is not None
    assert Path(source.file) == tmp_path / "fork.py"
    assert line_of(source).startswith(f"def {name}(")
