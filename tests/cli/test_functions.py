"""A user's own functions through the command: other libraries' names, gradients of their own, what goes wrong."""

from __future__ import annotations

import json
from pathlib import Path
from textwrap import dedent

import pytest

from tests.cli.conftest import Lossgate

LOSSES = """
    import torch

    def terms(logps, old, advantages, low, high):
        a = advantages if advantages.dim() == 2 else advantages[:, None]
        ratio = torch.exp(logps - (logps.detach() if old is None else old))
        free, clipped = ratio * a, ratio.clamp(1 - low, 1 + high) * a
        return free, clipped

    def trl_names(per_token_logps, old_per_token_logps, advantages, completion_mask, epsilon, epsilon_high,
                  num_items_in_batch, temperature=1.0, **options):
        free, clipped = terms(per_token_logps, old_per_token_logps, advantages, epsilon, epsilon_high)
        loss = -(torch.min(free, clipped) * completion_mask).sum() / num_items_in_batch.clamp(min=1)
        return loss, {"clip_ratio": 0.0}

    def verl_names(old_log_prob, log_prob, token_advantages, response_mask, clip_ratio):
        free, clipped = terms(log_prob, old_log_prob, token_advantages, clip_ratio, clip_ratio)
        return {"loss": -(torch.min(free, clipped) * response_mask).sum() / response_mask.sum().clamp(min=1)}

    def kernel(logps, old_logps, advantages, mask, eps_low, eps_high, batch_num_tokens):
        with torch.no_grad():
            free, clipped = terms(logps, old_logps, advantages, eps_low, eps_high)
            n = batch_num_tokens.clamp(min=1)
            loss = -torch.where(mask, torch.min(free, clipped), 0.0).sum() / n
            return loss, torch.where(mask & (free <= clipped), -free, 0.0) / n

    def wrong_kernel(logps, old_logps, advantages, mask, eps_low, eps_high, batch_num_tokens):
        loss, gradient = kernel(**locals())
        return loss, 2 * gradient

    def float_mask(logps, advantages, mask):
        return (logps * (1 - mask)).sum()

    def twice(logps, log_probs, advantages, mask): ...

    def misspelled(logpss, advantages, mask): ...
"""

CELL = ("--loss-type", "bnpo", "--level", "token", "--beta", "0", "--dtype", "float32", "--quiet")


@pytest.fixture
def losses(folder: Path) -> Path:
    """The user's folder with `losses.py` in it."""
    (folder / "losses.py").write_text(dedent(LOSSES))
    return folder


@pytest.mark.usefixtures("losses")
def test_losses_with_other_libraries_names_are_judged(lossgate: Lossgate) -> None:
    """As they are, with one bound or two, with metrics, a dict, or a gradient beside the loss."""
    targets = ("losses:trl_names", "losses:verl_names", "losses:kernel")
    result = lossgate("run", *targets, *CELL, "--examples", "16", "--format", "json")
    assert result.returncode == 0, result.stdout + result.stderr
    report = json.loads(result.stdout)
    assert [cell["target"] for cell in report["cells"]] == list(targets)
    # None protects itself where a ratio exceeds float32.
    assert {cell["verdict"] for cell in report["cells"]} <= {"conforms", "overflow"}
    assert all(cell["cases"] - cell["verdicts"]["unsupported"] > 20 for cell in report["cells"])


@pytest.mark.usefixtures("losses")
def test_a_wrong_gradient_beside_a_right_loss_diverges(lossgate: Lossgate) -> None:
    """What the kernel wrote is what is judged, not what autograd would find."""
    result = lossgate("run", "losses:wrong_kernel", *CELL, "--examples", "4")
    assert result.returncode == 1
    assert "DIVERGES" in result.stdout
    assert "gradient x 2, loss right" in result.stdout


@pytest.mark.usefixtures("losses")
def test_a_loss_for_another_mask_is_told_so(lossgate: Lossgate) -> None:
    """The error is explained in the table."""
    result = lossgate("run", "losses:float_mask", *CELL, "--examples", "4")
    assert result.returncode == 1
    words = " ".join(result.stdout.split())
    assert "raised RuntimeError: mask is a bool tensor here, so take mask.long() or mask.float()" in words


@pytest.mark.usefixtures("losses")
@pytest.mark.parametrize(
    ("name", "says", "hint"),
    [
        (
            "twice",
            "losses:twice has two parameters for logps, logps and log_probs",
            "judge a small function around",
        ),
        ("misspelled", "losses:misspelled requires 'logpss', which is not offered", "did you mean 'logps'?"),
    ],
)
def test_parameters_that_cannot_be_mapped_are_wrong_usage(
    lossgate: Lossgate, name: str, says: str, hint: str
) -> None:
    """Exit 2 with what to do, and no traceback."""
    result = lossgate("run", f"losses:{name}", *CELL)
    assert result.returncode == 2
    assert says in result.stderr
    assert hint in result.stderr
    assert "Traceback" not in result.stderr


SEQUENCE_ONLY = """
import torch

def gspo(logps, old_logps, advantages, mask, epsilon_low, epsilon_high):
    advantages = advantages if advantages.dim() == 2 else advantages[:, None]
    log_ratios = logps - (logps.detach() if old_logps is None else old_logps)
    lengths = mask.sum(1, keepdim=True).clamp(min=1)
    ratios = torch.exp((log_ratios * mask).sum(1, keepdim=True) / lengths)
    terms = torch.min(ratios * advantages, ratios.clamp(1 - epsilon_low, 1 + epsilon_high) * advantages)
    return (-(terms * mask).sum(1) / lengths[:, 0]).mean()
"""


@pytest.mark.parametrize("said", ["--level", "file"])
def test_a_function_of_one_level_is_judged_at_it(said: str, lossgate: Lossgate, folder: Path) -> None:
    """A function without a parameter for the level computes what the command line or the file says."""
    (folder / "lvl.py").write_text(SEQUENCE_ONLY)
    level = ("--level", "sequence")
    if said == "file":
        (folder / "lossgate.toml").write_text('[target."lvl:gspo"]\nloss_type = "grpo"\nlevel = "sequence"\n')
        level = ()
    cell = ("--loss-type", "grpo", "--beta", "0", "--dtype", "float32", "--examples", "4")
    result = lossgate("run", "lvl:gspo", *level, *cell, "--quiet", "--all")
    assert result.returncode == 0, result.stdout
    assert "sequence" in result.stdout
    assert "token  " not in result.stdout


def test_where_to_look_closer_in_a_run_of_several_targets(lossgate: Lossgate, folder: Path) -> None:
    """The command that is printed works: a case does not say which of several targets it is a case of."""
    (folder / "lvl.py").write_text(SEQUENCE_ONLY)
    cell = ("--loss-type", "grpo", "--level", "token", "--beta", "0", "--dtype", "float32", "--examples", "1")
    result = lossgate("run", "printed:loss", "lvl:gspo", *cell, "--quiet")
    (line,) = (line for line in result.stdout.splitlines() if line.startswith("look closer: lossgate "))
    look = lossgate(*line.removeprefix("look closer: lossgate ").split())
    assert look.returncode == 1, look.stderr
    assert "loss = sum of weight" in look.stdout
