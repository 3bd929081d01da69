"""A callable is given the parameters it names, and supports what they can express."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from harness.worker.target import LOSS_TYPES, Target, TensorCase, Unavailable
from harness.worker.targets import function
from tests.worker.user_code import open_source, tensor_case


@pytest.fixture
def opened(tmp_path: Path) -> Callable[..., Target]:
    """Write a module and open its `loss`."""
    return partial(open_source, tmp_path)


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
    seen = target._call.seen  # type: ignore[attr-defined] # the callable of the test
    assert {name: seen[name] for name in case.tensors} == case.tensors
    assert [seen[name] for name in ("loss_type", "importance_sampling_level", "beta")] == [
        "dr_grpo",
        "sequence",
        0.5,
    ]
    assert [seen[name] for name in ("epsilon_low", "epsilon_high", "max_completion_length")] == [0.1, 0.3, 17]
    assert seen["temperature"] == 2.0
    assert target.supports.loss_types == ("grpo", "bnpo", "dr_grpo", "dapo", "cispo", "luspo", "gmpo")
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
        ("logps, advantages, *mask", "has no parameter 'mask', which every loss needs"),
        ("**options", "has no parameter 'logps', which every loss needs"),
        ("logps, advantages", "has no parameter 'mask', which every loss needs"),
        ("logps, mask", "has no parameter 'advantages', which every loss needs"),
        ("advantages, mask", "has no parameter 'logps', which every loss needs"),
    ],
)
def test_parameters_that_cannot_be_mapped_are_refused(opened: Any, parameters: str, says: str) -> None:
    """At the start, with what is offered."""
    with pytest.raises(Unavailable, match=re.escape(says)) as caught:
        opened(f"def loss({parameters}): ...", loss_type="grpo")
    assert caught.value.kind == "unknown"
    assert "offered are logps" in str(caught.value)


@pytest.mark.parametrize(
    ("required", "hint"),
    [
        ("old_log_ps", "did you mean 'old_logps'?"),
        ("epsilon_hi", "did you mean 'epsilon_high'?"),
        ("hidden", "docs/targets.md has all names; give it a default, or wrap it"),
    ],
)
def test_a_name_that_is_nearly_one_is_recognised(opened: Any, required: str, hint: str) -> None:
    """What was probably meant, or where the names are."""
    with pytest.raises(Unavailable) as caught:
        opened(f"def loss(logps, advantages, mask, {required}): ...", loss_type="grpo")
    assert caught.value.hint == hint


def test_parameters_by_position_only_are_refused(opened: Any) -> None:
    """They cannot be given by name."""
    with pytest.raises(Unavailable, match="takes logps by position only, but arguments are passed by name"):
        opened("def loss(logps, advantages, mask, /): ...", loss_type="grpo")


def test_what_a_callable_takes_beyond_names_is_not_given_to_it(opened: Any) -> None:
    """*args and **kwargs beside names promise nothing: nothing is passed, and no option is supported for them."""
    target = opened(
        "def loss(logps, advantages, mask, *args, **options):\n    assert not args and not options\n"
        "    return logps.sum()",
        loss_type="grpo",
    )
    assert target.supports.options == ("token_advantages",)
    assert target.loss(tensor_case()).item() == -6.0


def test_a_callable_of_one_loss_must_say_which(opened: Any) -> None:
    """The hint names the option and its values."""
    with pytest.raises(Unavailable, match="it must be said which loss it is") as caught:
        opened("def loss(logps, advantages, mask): ...")
    assert caught.value.hint == f"pass --loss-type, one of {', '.join(LOSS_TYPES)}"
    with pytest.raises(Unavailable, match="no loss_type 'gppo'"):
        opened("def loss(logps, advantages, mask): ...", loss_type="gppo")


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("los", "has no los"),
        ("loss.inner", "has no loss.inner"),
        ("Loss", "is a class without compute_loss; a function or a trainer is needed"),
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
