"""Operators of a compiled library: a real one, built here, is loaded and judged in a process of its own."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cases.case import Case
from harness.client import Outcome, TargetUnavailable, WorkerClient
from harness.worker.target import Unavailable
from harness.worker.targets import operator
from tests.cli.conftest import COMMAND
from tests.worker.operators import COMPILER, built

pytestmark = pytest.mark.skipif(COMPILER is None, reason="building an operator needs g++")

BNPO = {"loss_type": "bnpo"}


@pytest.fixture(scope="session")
def library() -> Path:
    """The operators of `operators/operators.cpp`."""
    return built()


@pytest.fixture(scope="session")
def ask(library: Path, make_case: Callable[..., Case]) -> Iterator[Callable[..., Outcome]]:
    """Ask an operator for bnpo, of an off-policy batch in float32 where nothing else is said."""
    clients: dict[str, WorkerClient] = {}

    def ask_it(name: str, dtype: str = "float32", **changes: Any) -> Outcome:
        client = clients.setdefault(name, WorkerClient(sys.executable, f"{library}#lossgate_test::{name}", BNPO))
        return client.ask(make_case(dtype, "bnpo", **changes))

    yield ask_it
    for client in clients.values():
        client.close()


def cells(folder: Path, *arguments: str) -> dict[str, str]:
    """The verdict on each target, by a small run of the command in a folder."""
    run = subprocess.run(
        [
            *(COMMAND, "run", *arguments, "--loss-type", "bnpo", "--level", "token", "--beta", "0"),
            *("--dtype", "float32", "--examples", "4", "--quiet", "--all", "--format", "json"),
        ],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in run.stderr, run.stderr
    return {cell["target"]: cell["verdict"] for cell in json.loads(run.stdout)["cells"]}


def test_operators_are_judged_by_the_command(library: Path, tmp_path: Path) -> None:
    """By a path from the current folder: one with a backward of its own, one that autograd goes through."""
    (tmp_path / "lib.so").symlink_to(library)
    fused, differentiable = "./lib.so#lossgate_test::fused", "lib.so#lossgate_test::differentiable"
    verdicts = cells(tmp_path, fused, differentiable)
    assert set(verdicts) == {fused, differentiable}
    # Neither protects itself where a ratio exceeds float32.
    assert set(verdicts.values()) <= {"conforms", "overflow"}


def test_what_the_schema_says_is_what_is_given(ask: Any) -> None:
    """Optional tensors are None where the case has none; one that must be there makes the case unsupported."""
    assert ask("fused", on_policy=True).status == "ok"
    assert ask("fused").status == "ok"
    assert ask("differentiable").status == "ok"
    refused = ask("differentiable", on_policy=True)
    assert refused.status == "unsupported"
    assert "must be given old_log_probs, and the case has none" in refused.message


def test_numbers_are_given_as_the_schema_types_them(ask: Any, make_case: Callable[..., Case]) -> None:
    """A count as a number, an integer as a float, a flag, a text."""
    case = make_case("float64", "bnpo", on_policy=True)
    told = case.batch.tokens + 1e3 * case.spec.max_completion_length + 2e6
    assert ask("typed", dtype="float64", on_policy=True).loss == told


def test_an_operator_without_autograd_is_judged_by_what_it_returns(ask: Any) -> None:
    """A graph that its kernel leaves by accident is not what a trainer would go through."""
    fused, mixed = ask("fused"), ask("mixed")
    assert mixed.status == "ok"
    assert mixed.gradient.any()
    assert (mixed.gradient == fused.gradient).all()


def test_an_operator_may_refuse_a_case(ask: Any) -> None:
    """By torch's own exception for it, or by the name of a parameter."""
    assert ask("two.second", on_policy=True, token_advantages=True).status == "ok"
    refused = ask("fused", token_advantages=True)
    assert (refused.status, refused.message) == ("unsupported", "advantages of shape (B, T) is not supported")
    refused = ask("refuses", on_policy=True)
    assert refused.status == "unsupported"
    assert refused.message.endswith("says: not in this library")


def test_an_operator_without_gradient_is_an_error(ask: Any) -> None:
    """torch marks its loss as differentiable all the same, with a gradient of 0."""
    outcome = ask("no_gradient")
    assert outcome.status == "error"
    assert "returned a loss that is detached" in outcome.message


def test_an_operator_that_crashes_costs_a_case(ask: Any) -> None:
    """Its process is gone, and that is said."""
    outcome = ask("crashes", on_policy=True)
    assert outcome.status == "crash"
    assert outcome.message.startswith("died of SIGSEGV (Segmentation fault)")


def test_a_module_that_registers_autograd_is_a_target(
    library: Path, tmp_path: Path, make_case: Callable[..., Case]
) -> None:
    """An operator that Python knows by name is mapped by its schema; the registered backward is what is judged."""
    (tmp_path / "trained.py").write_text(
        "import torch\n"
        f"torch.ops.load_library({str(library)!r})\n"
        "def keep(ctx, inputs, output): ctx.save_for_backward(output[1])\n"
        "def backward(ctx, gradient, _):\n"
        "    return (3 * gradient * ctx.saved_tensors[0], *[None] * 6)\n"
        "torch.library.register_autograd('lossgate_test::trained', backward, setup_context=keep)\n"
        "loss = torch.ops.lossgate_test.trained\n"
        "plain = torch.ops.lossgate_test.fused.default\n"
    )
    gradients = []
    for name in ("loss", "plain"):
        with WorkerClient(sys.executable, f"trained:{name}", BNPO, cwd=tmp_path) as client:
            outcome = client.ask(make_case("float32", "bnpo"))
        assert outcome.status == "ok", outcome.message
        gradients.append(outcome.gradient)
    trained, plain = gradients
    assert trained == pytest.approx(3 * plain, rel=1e-6)
    assert plain.any()


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("lossgate_test::nope", "has no operator lossgate_test::nope; there are lossgate_test::crashes, loss"),
        ("lossgate_test::two", "has several overloads, 'first', 'second': name one"),
        ("lossgate_test::two.third", "has no 'third', has 'first', 'second'"),
        ("lossgate_test::wants_hidden", "requires 'hidden', which is not offered; offered are logps"),
        ("lossgate_test::wants_integer", "takes beta as int, where float or number is offered"),
        ("fused", "names no operator"),
        ("::fused", "names no operator"),
    ],
)
def test_what_is_no_operator_of_a_loss_is_refused(library: Path, path: str, says: str) -> None:
    """Wrong usage, with what there is instead."""
    with pytest.raises(Unavailable, match=re.escape(says)) as caught:
        operator.open_target(f"{library}#{path}", BNPO)
    assert caught.value.kind == "unknown"


def test_another_namespace_shows_what_the_library_registers(library: Path) -> None:
    """In the wrong namespace there is nothing to show."""
    says = "has no operator nowhere::fused; there are lossgate_test::crashes, lossgate_test::differentiable, "
    with pytest.raises(TargetUnavailable, match=says) as caught:
        WorkerClient(sys.executable, f"{library}#nowhere::fused", BNPO).__enter__()
    assert caught.value.kind == "unknown"


def test_a_library_that_is_not_there_or_does_not_load(tmp_path: Path) -> None:
    """The first is wrong usage; of the second, the loader's words are shown in one line."""
    with pytest.raises(Unavailable, match=r"no file .*/nowhere\.so") as absent:
        operator.open_target(f"{tmp_path}/nowhere.so#ns::op", BNPO)
    assert absent.value.kind == "unknown"
    source = tmp_path / "unlinked.cpp"
    source.write_text("void gone_from_torch(); auto* kept = &gone_from_torch;")
    library = tmp_path / "unlinked.so"
    assert COMPILER is not None
    subprocess.run([COMPILER, "-shared", "-fPIC", source, "-o", library], check=True)
    with pytest.raises(Unavailable, match=r"cannot be loaded: .*undefined symbol: .*gone_from_torch") as broken:
        operator.open_target(f"{library}#ns::op", BNPO)
    assert broken.value.kind == "broken"
    assert "\n" not in str(broken.value)
    assert broken.value.hint.startswith("build it with the torch of this interpreter")
    library.write_text("no library")
    with pytest.raises(Unavailable, match=r"cannot be loaded: .*(invalid ELF header|file too short)"):
        operator.open_target(f"{library}#ns::op", BNPO)
