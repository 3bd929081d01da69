"""Names of arguments: what each library calls them, and what is given under each."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from harness.worker.target import Spec, Target, Unavailable, Unsupported
from harness.worker.targets.offered import BY_NAME, OFFERED
from tests.worker.user_code import open_source, tensor_case

SEEING = "def loss({}):\n    loss.seen = dict(locals())\n    return {}.sum()\n"


@pytest.fixture
def opened(tmp_path: Path) -> Callable[..., Target]:
    """Write a module and open its `loss`."""
    return partial(open_source, tmp_path)


def seen_by(target: Target, case: Any) -> dict[str, Any]:
    """What a callable made of `SEEING` is given."""
    target.loss(case)
    seen: dict[str, Any] = target._call.seen  # type: ignore[attr-defined] # the callable of the test
    return seen


def test_every_name_means_one_thing() -> None:
    """No name stands in two rows of the table, nor twice in one."""
    names = [name for argument in OFFERED for name in (argument.name, *argument.aliases)]
    assert len(names) == len(set(names)) == len(BY_NAME)


def test_every_option_of_a_case_is_offered() -> None:
    """A hyper-parameter that a spec has and nobody can be given would be judged as if it did not matter."""
    fields = set(inspect.signature(Spec).parameters) - {"conventions"}
    assert fields <= {argument.name for argument in OFFERED}


LIBRARIES = {
    "trl": (
        "per_token_logps, old_per_token_logps, ref_per_token_logps, completion_mask, advantages, "
        "sampling_per_token_logps, importance_sampling_ratio, epsilon, epsilon_high",
        "per_token_logps",
    ),
    "liger": (
        "per_token_logps, attention_mask, advantages, full_attention_mask, ref_per_token_logps, "
        "old_per_token_logps, vllm_is_ratio, epsilon_low, epsilon_high",
        "per_token_logps",
    ),
    "verl": (
        "old_log_prob, log_prob, advantages, response_mask, cliprange, cliprange_low, cliprange_high, "
        "rollout_log_probs, rollout_is_weights",
        "log_prob",
    ),
    "openrlhf": (
        "log_probs, old_log_probs, advantages, action_mask, clip_eps_low, clip_eps_high, rollout_log_probs",
        "log_probs",
    ),
    "unsloth": ("ref, new, old, sampling_per_token_logps, mask, advantages, epsilon_low, epsilon_high", "new"),
}


@pytest.mark.parametrize("library", LIBRARIES)
def test_the_names_of_a_library_are_understood(opened: Any, library: str) -> None:
    """A loss written with its names gets the tensors and bounds that it expects under them."""
    parameters, logps = LIBRARIES[library]
    case = replace(
        tensor_case(True),
        sampling_logps=torch.full((2, 3), -1.25),
        importance_ratio=torch.full((2, 1), 0.5),
        advantages=torch.tensor([1.0, -1.0]),
    )
    target = opened(SEEING.format(parameters, logps), loss_type="grpo")
    assert target.refusal(tensor_case(True)) is None
    seen = seen_by(target, case)
    for name, value in seen.items():
        meant = BY_NAME[name].name
        if isinstance(value, torch.Tensor):
            assert value is (case.mask if meant == "full_mask" else getattr(case, meant)), name
        else:
            assert value == {"epsilon": 0.1, "epsilon_low": 0.1, "epsilon_high": 0.3}[meant], name
    # Everything was there, so that nothing was left to a default.
    assert len(seen) == parameters.count(",") + 1


def test_two_parameters_for_one_thing_are_refused(opened: Any) -> None:
    """Which of them the loss reads cannot be known."""
    with pytest.raises(Unavailable, match="has two parameters for mask, completion_mask and mask") as caught:
        opened("def loss(logps, advantages, completion_mask, mask=None): ...", loss_type="grpo")
    assert caught.value.hint == "judge a small function around it that has one of them"


@pytest.mark.parametrize("name", ["epsilon", "clip_eps", "clip_ratio", "cliprange"])
def test_one_epsilon_is_for_equal_bounds(opened: Any, name: str) -> None:
    """Where the case has two, one number cannot say it; on-policy no clip acts."""
    target = opened(SEEING.format(f"logps, old_logps, advantages, mask, {name}", "logps"), loss_type="grpo")
    assert "has one epsilon for both bounds, and the case has 0.1 and 0.3" in target.refusal(tensor_case(True))
    assert target.refusal(tensor_case()) is None
    equal = tensor_case(True, epsilon_low=0.25, epsilon_high=0.25)
    assert target.refusal(equal) is None
    assert seen_by(target, equal)[name] == 0.25


def test_one_epsilon_is_no_cap_of_cispo(opened: Any) -> None:
    """cispo's bound is absolute: a clip range around 1 would be another number."""
    target = opened("def loss(logps, old_logps, advantages, mask, epsilon): ...", loss_type="cispo")
    assert "has no parameter epsilon_high, which cispo needs" in target.refusal(tensor_case(loss_type="cispo"))


def test_numbers_that_a_trainer_counts_are_offered(opened: Any) -> None:
    """Tokens and completions of the step, and advantages in the one shape that a loss was written for."""
    case = replace(
        tensor_case(),
        mask=torch.tensor([[True, True, False], [True, False, False]]),
        advantages=torch.tensor([2.0, -1.0]),
    )
    parameters = "logps, token_advantages, completion_advantages, mask, num_items_in_batch, global_batch_size"
    seen = seen_by(opened(SEEING.format(parameters, "logps"), loss_type="dapo"), case)
    assert seen["num_items_in_batch"].item() == 3
    assert seen["num_items_in_batch"].shape == ()
    assert seen["global_batch_size"] == 2
    assert seen["token_advantages"].tolist() == [[2.0] * 3, [-1.0] * 3]
    assert seen["token_advantages"].is_contiguous()
    assert seen["completion_advantages"] is case.advantages


def test_a_loss_for_advantages_of_completions_is_not_given_those_of_tokens(opened: Any) -> None:
    """A case that has them is unsupported, instead of broadcast the wrong way."""
    per_token = replace(tensor_case(), advantages=torch.ones(2, 3))
    target = opened("def loss(logps, completion_advantages, mask): ...", loss_type="grpo")
    assert target.refusal(per_token) == "advantages of shape (B, T) is not supported"
    parameters = "logps, token_advantages, mask"
    target = opened(SEEING.format(parameters, "logps"), loss_type="grpo")
    assert target.refusal(per_token) is None
    assert seen_by(target, per_token)["token_advantages"] is per_token.advantages


@pytest.mark.parametrize(
    ("parameter", "options"),
    [
        ("kl_estimator", {"k3_bias_corrected", "k1", "k2"}),
        ("use_bias_correction_kl", {"k3_bias_corrected"}),
        ("", set()),
    ],
)
def test_estimators_of_kl_are_those_that_can_be_named(opened: Any, parameter: str, options: set[str]) -> None:
    """A text names all of them, a flag one more than k3."""
    source = SEEING.format(f"logps, ref_logps, advantages, mask, beta, {parameter}", "logps")
    target = opened(source, loss_type="grpo")
    assert set(target.supports.options) - {"token_advantages", "beta"} == options
    if parameter == "use_bias_correction_kl":
        assert seen_by(target, tensor_case(beta=1.0, kl_estimator="k3_bias_corrected"))[parameter] is True
        assert seen_by(target, tensor_case(beta=1.0))[parameter] is False


def test_the_off_policy_mask_needs_the_sampling_log_probabilities(opened: Any) -> None:
    """Where the case has some; else the drift is that of the old policy."""
    parameters = "logps, old_logps, advantages, mask, epsilon_low, epsilon_high, off_policy_mask_threshold"
    target = opened(f"def loss({parameters}): ...", loss_type="grpo")
    case = tensor_case(True, off_policy_mask_threshold=0.5)
    assert target.refusal(case) is None
    assert "has no parameter sampling_logps" in target.refusal(replace(case, sampling_logps=case.old_logps))


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("(1 - mask).sum()", "mask is a bool tensor here, so take mask.long() or mask.float()"),
        ("mask.mean()", "mask is a bool tensor here"),
        ("mask @ logps.T", "mask is a bool tensor here"),
        ("mask.T @ mask", "mask is a bool tensor here"),
        ("logps - old_logps", "old_logps is None in this case: unsupported operand"),
        ("old_logps.exp()", "old_logps is None in this case: 'NoneType' object has no attribute 'exp'"),
    ],
)
def test_an_error_about_what_was_given_says_so(opened: Any, body: str, says: str) -> None:
    """Such a loss was written for other masks, or for off-policy batches: it is an error with an explanation."""
    target = opened(f"def loss(logps, old_logps, advantages, mask): return {body}", loss_type="grpo")
    with pytest.raises((RuntimeError, TypeError, AttributeError)) as caught:
        target.loss(tensor_case())
    assert str(caught.value).startswith(says)
    assert not isinstance(caught.value, NotImplementedError)


def test_an_error_of_its_own_is_left_alone(opened: Any) -> None:
    """No explanation where None and bool are not what it is about, and a refusal stays one."""
    target = opened(
        "def loss(logps, old_logps, advantages, mask):\n    if mask: pass",
        loss_type="grpo",
    )
    with pytest.raises(RuntimeError, match=r"^Boolean value of Tensor with more than one value is ambiguous"):
        target.loss(tensor_case())
    target = opened("def loss(logps, advantages, mask): raise NotImplementedError('no GPU')", loss_type="grpo")
    with pytest.raises(Unsupported, match="says: no GPU"):
        target.loss(tensor_case())
