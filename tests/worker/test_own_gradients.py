"""What a callable may return: a loss with a graph, or a loss and the gradient that its author wrote."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
import torch

from cases.case import Case
from harness.client import WorkerClient
from harness.worker.gradients import answer_in
from harness.worker.target import Target
from tests.worker.user_code import open_source, tensor_case

LOSS = "loss = -(logps * advantages[:, None] * mask).sum()"


@pytest.fixture
def opened(tmp_path: Path) -> Callable[..., Target]:
    """Open a function that has the loss as `loss` and returns an expression."""

    def open_it(returned: str) -> Target:
        source = f"import torch\ndef loss(logps, advantages, mask):\n    {LOSS}\n    return {returned}"
        return open_source(tmp_path, source, loss_type="grpo")

    return open_it


@pytest.mark.parametrize(
    "returned",
    [
        "loss",
        "(loss, {'clip_ratio': 0.5})",
        "(loss,)",
        "[loss, loss.detach(), 3]",
        "{'loss': loss, 'kl': None}",
        "(loss, torch.full((2, 3), 7.0))",
        "(loss, torch.full((2, 3), 7.0, requires_grad=True))",
    ],
)
def test_a_loss_with_a_graph_is_differentiated(opened: Any, returned: str) -> None:
    """Whatever stands beside it, per-token losses of the shape of logps too."""
    answer = opened(returned).answer(tensor_case())
    assert answer.gradient is None
    assert answer.loss.requires_grad
    assert answer.loss.item() == 6.0


@pytest.mark.parametrize("returned", ["(loss.detach(), torch.full((2, 3), 7.0))", "[loss.detach(), logps * -7]"])
def test_a_loss_without_a_graph_brings_its_gradient(opened: Any, returned: str) -> None:
    """The second element, where it is one number a token."""
    answer = opened(returned).answer(tensor_case())
    assert answer.gradient is not None
    assert answer.gradient.tolist() == [[7.0] * 3] * 2
    assert not answer.gradient.requires_grad


@pytest.mark.parametrize("second", ["torch.ones(2)", "torch.ones(2, 3, dtype=torch.long)", "torch.ones(6)", "{}"])
def test_another_tensor_is_no_gradient(opened: Any, second: str) -> None:
    """Of another shape, or of integers."""
    answer = opened(f"(loss.detach(), {second})").answer(tensor_case())
    assert answer.gradient is None
    assert not answer.loss.requires_grad


def test_a_gradient_of_one_token_is_one() -> None:
    """A batch of one token has a gradient of shape (1, 1), which is not the shape of a loss."""
    logps = torch.zeros((1, 1), requires_grad=True)
    answer = answer_in((torch.tensor(1.0), torch.tensor([[2.0]])), logps)
    assert answer.gradient is not None
    assert answer_in((torch.tensor(1.0), torch.tensor(2.0)), logps).gradient is None


MODULE = """
    import torch

    def fused(logps, advantages, mask, num_items_in_batch):
        with torch.no_grad():
            weight = torch.where(mask, -advantages[:, None], 0.0) / max(num_items_in_batch, 1)
            return (logps * 0 + weight).sum(), weight

    def detached(logps, advantages, mask):
        return logps.sum().detach(), advantages

    def scribbles(logps, advantages, mask, num_items_in_batch):
        loss, grad = fused(logps, advantages, mask, num_items_in_batch)
        return loss, advantages.mul_(2)[:, None] * mask
"""


@pytest.fixture
def case(make_case: Callable[..., Case]) -> Case:
    """On-policy, in float32."""
    made = make_case("float32", "bnpo", on_policy=True)
    return replace(made, spec=replace(made.spec, beta=0.0))


@pytest.fixture
def ask(tmp_path: Path, case: Case) -> Callable[[str], Any]:
    """Ask a function of `MODULE` in a process of its own."""
    (tmp_path / "kernels.py").write_text(dedent(MODULE))

    def ask_it(name: str) -> Any:
        with WorkerClient(sys.executable, f"kernels:{name}", {"loss_type": "bnpo"}, cwd=tmp_path) as client:
            return client.ask(case)

    return ask_it


def test_the_gradient_that_is_judged_is_the_one_that_was_written(ask: Any, case: Case) -> None:
    """It arrives as it was returned, without a loss that requires grad."""
    outcome = ask("fused")
    assert outcome.status == "ok"
    rows, _ = case.batch.mask.shape
    weight = -case.batch.advantages.reshape(rows, 1) * case.batch.mask / case.batch.tokens
    assert outcome.gradient == pytest.approx(weight, rel=1e-6)
    assert outcome.loss == pytest.approx(weight.sum(), rel=1e-5)


def test_a_detached_loss_alone_is_no_answer(ask: Any) -> None:
    """The message says what was looked for."""
    outcome = ask("detached")
    assert outcome.status == "error"
    assert outcome.message == (
        "returned a loss that is detached: it has no gradient with respect to logps, "
        "nor is there a tensor of their shape beside it that could be it"
    )


def test_inputs_are_checked_beside_a_gradient_of_its_own(ask: Any) -> None:
    """A kernel that writes into what it was given is found, though autograd never runs."""
    outcome = ask("scribbles")
    assert outcome.message == "changed its input 'advantages' in place"
