"""A loss spec and a split take what makes sense, and say what is wrong with anything else."""

from __future__ import annotations

import math
import re
from dataclasses import FrozenInstanceError, fields
from typing import Any

import pytest

from cases.conventions import Conventions, EmptyRows, PaddingPromise
from cases.spec import Level, LossSpec, LossType
from cases.split import Split

EPSILON = "a number between 0 and 1"
LENGTH = "an integer of at least 1"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"loss_type": "ppo"}, "loss_type: got 'ppo', takes one of grpo, bnpo, dr_grpo, dapo, cispo"),
        ({"loss_type": None}, "loss_type: got None, takes one of grpo, "),
        ({"loss_type": "GRPO"}, "loss_type: got 'GRPO', takes one of grpo, "),
        (
            {"importance_sampling_level": "row"},
            "importance_sampling_level: got 'row', takes one of token, sequence",
        ),
        ({"beta": -0.1}, "beta: got -0.1, takes a number of at least 0"),
        ({"beta": math.nan}, "beta: got nan, takes a number of at least 0"),
        ({"beta": math.inf}, "beta: got inf, takes a number of at least 0"),
        ({"beta": "0.1"}, "beta: got '0.1', takes a number of at least 0"),
        ({"beta": True}, "beta: got True, takes a number of at least 0"),
        ({"beta": None}, "beta: got None, takes a number of at least 0"),
        ({"epsilon_low": 0.0}, f"epsilon_low: got 0.0, takes {EPSILON}"),
        ({"epsilon_low": 1}, f"epsilon_low: got 1, takes {EPSILON}"),
        ({"epsilon_low": math.nan}, f"epsilon_low: got nan, takes {EPSILON}"),
        ({"epsilon_low": [0.2]}, f"epsilon_low: got [0.2], takes {EPSILON}"),
        ({"epsilon_high": 0}, "epsilon_high: got 0, takes a number above 0"),
        ({"epsilon_high": -0.2}, "epsilon_high: got -0.2, takes a number above 0"),
        ({"epsilon_high": math.inf}, "epsilon_high: got inf, takes a number above 0"),
        ({"max_completion_length": 0}, f"max_completion_length: got 0, takes {LENGTH}"),
        ({"max_completion_length": 8.0}, f"max_completion_length: got 8.0, takes {LENGTH}"),
        ({"max_completion_length": True}, f"max_completion_length: got True, takes {LENGTH}"),
        ({"max_completion_length": None}, f"max_completion_length: got None, takes {LENGTH}"),
    ],
)
def test_wrong_fields_are_named(changes: dict[str, Any], message: str) -> None:
    """A wrong field is refused in a sentence with its name, what it got and what it takes."""
    with pytest.raises(ValueError, match="^" + re.escape(message)):
        LossSpec(**{"loss_type": "grpo", **changes})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"empty_rows": "skipped"}, "empty_rows: got 'skipped', takes one of counted, not_counted"),
        ({"padding": ("zero",)}, "padding: got 'zero', takes one of finite, huge, inf, nan"),
        ({"padding": "finite"}, "padding: got 'finite', takes a list of finite, huge, inf, nan"),
    ],
)
def test_wrong_conventions_are_named(changes: dict[str, Any], message: str) -> None:
    """Conventions are enumerations; anything else is refused by name."""
    with pytest.raises(ValueError, match="^" + re.escape(message)):
        Conventions(**changes)


@pytest.mark.parametrize("field", ["ranks", "accumulation_steps", "steps_per_generation"])
@pytest.mark.parametrize("value", [0, -1, 1.0, True, None, "2"])
def test_wrong_splits_are_named(field: str, value: Any) -> None:
    """The numbers of a split are integers of at least 1."""
    with pytest.raises(ValueError, match=f"^{field}: got {value!r}, takes an integer of at least 1$"):
        Split(**{field: value})


def test_steps_of_a_generation_are_whole_accumulations() -> None:
    """A generation batch is used up by whole optimizer steps."""
    with pytest.raises(
        ValueError, match=r"^steps_per_generation: got 3, takes a multiple of accumulation_steps \(2\)$"
    ):
        Split(accumulation_steps=2, steps_per_generation=3)
    assert Split(1, 2, 4).steps_per_generation == 4


def test_only_the_plain_split_is_whole() -> None:
    """A batch is judged in one piece where nothing is split."""
    assert Split().is_whole
    assert not any(split.is_whole for split in (Split(ranks=2), Split(1, 1, 2), Split(1, 2, 2)))


def test_names_are_read_as_members() -> None:
    """Texts become members of their enumerations, integers become floats: equal specs are equal."""
    named = LossSpec(
        "cispo",
        "sequence",
        1,
        0.5,
        2,
        max_completion_length=7,
        conventions=Conventions("not_counted", padding=["nan", "inf"]),
    )
    written = LossSpec(
        LossType.CISPO,
        Level.SEQUENCE,
        beta=1.0,
        epsilon_low=0.5,
        epsilon_high=2.0,
        max_completion_length=7,
        conventions=Conventions(EmptyRows.NOT_COUNTED, padding=(PaddingPromise.NAN, PaddingPromise.INF)),
    )
    assert named == written
    assert hash(named) == hash(written)
    assert named.loss_type is LossType.CISPO
    assert named.conventions.padding == (PaddingPromise.NAN, PaddingPromise.INF)
    for number in (named.beta, named.epsilon_low, named.epsilon_high):
        assert type(number) is float


def test_specs_do_not_change() -> None:
    """Specs, conventions and splits are values."""
    for value in (LossSpec(LossType.GRPO), Conventions(), Split()):
        name = fields(value)[0].name
        with pytest.raises(FrozenInstanceError):
            setattr(value, name, getattr(value, name))


@pytest.mark.parametrize("loss_type", [LossType.GRPO, LossType.BNPO, LossType.DR_GRPO, LossType.DAPO])
def test_bounds_of_a_clipped_ratio(loss_type: LossType) -> None:
    """The clip family keeps the ratio between 1 - epsilon_low and 1 + epsilon_high."""
    assert LossSpec(loss_type, epsilon_low=0.25, epsilon_high=0.5).ratio_bounds == (0.75, 1.5)


def test_cap_of_cispo_is_absolute() -> None:
    """cispo has no lower bound, and epsilon_high is its cap itself."""
    assert LossSpec(LossType.CISPO, epsilon_low=0.25, epsilon_high=0.5).ratio_bounds == (0.0, 0.5)


def test_defaults_are_the_plain_loss() -> None:
    """Without options: token level, no KL term, symmetric bounds of 0.2, all rows counted."""
    spec = LossSpec(LossType.GRPO)
    assert (spec.importance_sampling_level, spec.beta) == (Level.TOKEN, 0.0)
    assert (spec.epsilon_low, spec.epsilon_high) == (0.2, 0.2)
    assert spec.conventions == Conventions(EmptyRows.COUNTED, padding=(PaddingPromise.FINITE,))
