"""Conventions take what makes sense, travel with a case to the bit, and leave an id alone where they are usual."""

from __future__ import annotations

import json
import math
import re
from dataclasses import FrozenInstanceError, fields, replace
from typing import Any, Final

import hypothesis.strategies as st
import pytest
from example_batches import case, respecified
from hypothesis import given, settings

from cases.case import Case, CaseFormatError
from cases.conventions import (
    CispoClip,
    Conventions,
    EmptyRows,
    KLAggregation,
    KLBounded,
    PaddingPromise,
    SequenceGradient,
    WindowTokens,
)
from cases.spec import LossSpec, LossType

CASE: Final = case({"beta": 0.5})

OTHERS: Final[dict[str, Any]] = {
    "empty_rows": EmptyRows.NOT_COUNTED,
    "window_tokens": WindowTokens.GENERATION_AVERAGE,
    "padding": (PaddingPromise.FINITE, PaddingPromise.NAN),
    "log_ratio_bounds": (-20.0, 1 / 3),
    "kl_log_ratio_bound": 20.1,
    "kl_bound": 0.1,
    "kl_bounded": KLBounded.EXPONENTIAL,
    "kl_aggregation": KLAggregation.TOKEN_MEAN,
    "dual_clip": 3.3,
    "sequence_gradient": SequenceGradient.TOKEN,
    "cispo_clip": CispoClip.TWO_SIDED,
    "denominator_epsilon": 1e-8,
}
"""A value beside the usual one for every convention."""

BOUNDS: Final = "a lower bound below 0 or None, and an upper bound above 0 or None"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"window_tokens": "average"}, "window_tokens: got 'average', takes one of exact, generation_average"),
        ({"kl_bounded": "k3"}, "kl_bounded: got 'k3', takes one of every, exponential"),
        ({"kl_aggregation": None}, "kl_aggregation: got None, takes one of with_policy, token_mean"),
        ({"sequence_gradient": "row"}, "sequence_gradient: got 'row', takes one of completion, token"),
        ({"cispo_clip": True}, "cispo_clip: got True, takes one of cap, two_sided"),
        ({"log_ratio_bounds": None}, f"log_ratio_bounds: got None, takes {BOUNDS}"),
        ({"log_ratio_bounds": 20.0}, f"log_ratio_bounds: got 20.0, takes {BOUNDS}"),
        ({"log_ratio_bounds": "ab"}, f"log_ratio_bounds: got 'ab', takes {BOUNDS}"),
        ({"log_ratio_bounds": (-20.0,)}, f"log_ratio_bounds: got (-20.0,), takes {BOUNDS}"),
        ({"log_ratio_bounds": (-1.0, 0.0, 1.0)}, f"log_ratio_bounds: got (-1.0, 0.0, 1.0), takes {BOUNDS}"),
        ({"log_ratio_bounds": (0.0, 1.0)}, f"log_ratio_bounds: got 0.0, takes {BOUNDS}"),
        ({"log_ratio_bounds": (-1.0, 0.0)}, f"log_ratio_bounds: got 0.0, takes {BOUNDS}"),
        ({"log_ratio_bounds": (1.0, -1.0)}, f"log_ratio_bounds: got 1.0, takes {BOUNDS}"),
        ({"log_ratio_bounds": (-math.inf, 1.0)}, f"log_ratio_bounds: got -inf, takes {BOUNDS}"),
        ({"log_ratio_bounds": (None, "20")}, f"log_ratio_bounds: got '20', takes {BOUNDS}"),
        ({"kl_log_ratio_bound": 0.0}, "kl_log_ratio_bound: got 0.0, takes a number above 0, or None"),
        ({"kl_log_ratio_bound": math.nan}, "kl_log_ratio_bound: got nan, takes a number above 0, or None"),
        ({"kl_bound": -10.0}, "kl_bound: got -10.0, takes a number above 0, or None"),
        ({"kl_bound": (-10.0, 10.0)}, "kl_bound: got (-10.0, 10.0), takes a number above 0, or None"),
        ({"dual_clip": 1.0}, "dual_clip: got 1.0, takes a number above 1, or None"),
        ({"dual_clip": math.inf}, "dual_clip: got inf, takes a number above 1, or None"),
        ({"denominator_epsilon": -1e-8}, "denominator_epsilon: got -1e-08, takes a number from 0 to below 1"),
        ({"denominator_epsilon": 1}, "denominator_epsilon: got 1, takes a number from 0 to below 1"),
        ({"denominator_epsilon": None}, "denominator_epsilon: got None, takes a number from 0 to below 1"),
        ({"denominator_epsilon": True}, "denominator_epsilon: got True, takes a number from 0 to below 1"),
    ],
)
def test_wrong_conventions_are_named(changes: dict[str, Any], message: str) -> None:
    """A wrong convention is refused in a sentence with its name, what it got and what it takes."""
    with pytest.raises(ValueError, match="^" + re.escape(message) + "$"):
        Conventions(**changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"log_ratio_bounds": [-20, None]},
        {"log_ratio_bounds": (None, None)},
        {"kl_log_ratio_bound": 20},
        {"kl_bound": None},
        {"dual_clip": 2},
        {"denominator_epsilon": 0},
        {"empty_rows": "not_counted", "kl_aggregation": "token_mean", "padding": ["inf"]},
    ],
)
def test_texts_and_integers_are_read(changes: dict[str, Any]) -> None:
    """What JSON can say is what a program would say: equal, hashable and of the same types."""
    read = Conventions(**changes)
    said = Conventions(**{name: getattr(read, name) for name in changes})
    assert read == said
    assert hash(read) == hash(said)
    for name in changes:
        held = getattr(read, name)
        for one in held if isinstance(held, tuple) else (held,):
            assert one is None or type(one) in (float, EmptyRows, KLAggregation, PaddingPromise)


def test_conventions_do_not_change() -> None:
    """They are values."""
    for name in OTHERS:
        with pytest.raises(FrozenInstanceError):
            setattr(Conventions(), name, OTHERS[name])


def test_every_convention_is_tried() -> None:
    """A convention that is added without a value here is missed."""
    assert set(OTHERS) == {field.name for field in fields(Conventions)}
    assert all(value != getattr(Conventions(), name) for name, value in OTHERS.items())


@pytest.mark.parametrize("names", [*([name] for name in OTHERS), list(OTHERS)], ids="-".join)
def test_round_trip(names: list[str]) -> None:
    """Written and read again, a case has the same conventions, to the bit, and the same id."""
    settled = respecified(CASE, conventions=Conventions(**{name: OTHERS[name] for name in names}))
    again = Case.from_json(settled.to_json())
    assert again == settled
    assert again.id == settled.id != CASE.id
    assert again.spec.conventions.log_ratio_bounds == settled.spec.conventions.log_ratio_bounds
    assert again.to_json() == settled.to_json()


POSITIVE: Final = st.floats(0.0, 1e300, exclude_min=True)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(
    st.builds(
        Conventions,
        empty_rows=st.sampled_from(EmptyRows),
        window_tokens=st.sampled_from(WindowTokens),
        padding=st.lists(st.sampled_from(PaddingPromise), max_size=4).map(tuple),
        log_ratio_bounds=st.tuples(st.none() | POSITIVE.map(lambda bound: -bound), st.none() | POSITIVE),
        kl_log_ratio_bound=st.none() | POSITIVE,
        kl_bound=st.none() | POSITIVE,
        kl_bounded=st.sampled_from(KLBounded),
        kl_aggregation=st.sampled_from(KLAggregation),
        dual_clip=st.none() | st.floats(1.0, 1e300, exclude_min=True),
        sequence_gradient=st.sampled_from(SequenceGradient),
        cispo_clip=st.sampled_from(CispoClip),
        denominator_epsilon=st.floats(0.0, 1.0, exclude_max=True),
    )
)
def test_round_trip_of_any_conventions(conventions: Conventions) -> None:
    """Whatever the numbers are, down to subnormal ones."""
    settled = respecified(CASE, conventions=conventions)
    again = Case.from_json(settled.to_json())
    assert (again, again.id) == (settled, settled.id)


def test_usual_conventions_do_not_enter_the_id() -> None:
    """Stored ids outlive conventions that are added later; every other value makes another case."""
    usual = {name: getattr(Conventions(), name) for name in OTHERS}
    assert respecified(CASE, conventions=Conventions(**usual)).id == CASE.id
    # The id of a case that was stored before any of them was there.
    assert Case(CASE.batch, LossSpec(LossType.GRPO, beta=0.5)).id == CASE.id == "4e82891022c8"
    ids = [respecified(CASE, conventions=replace(Conventions(), **{name: OTHERS[name]})).id for name in OTHERS]
    assert len({CASE.id, *ids}) == 1 + len(OTHERS)


def test_conventions_that_a_file_lacks_are_usual() -> None:
    """A case that was stored before a convention was added is read as it was meant."""
    data = json.loads(CASE.to_json())
    for name in OTHERS:
        del data["spec"]["conventions"][name]
        assert Case.from_json(json.dumps(data)) == CASE
    assert data["spec"]["conventions"] == {}


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("dual_clip", 0.5, "dual_clip: got 0.5, takes a number above 1, or None"),
        ("log_ratio_bounds", [-20.0], "log_ratio_bounds: got [-20.0], takes a lower bound below 0"),
        ("kl_clamp", 10.0, "kl_clamp: unknown, takes cispo_clip, denominator_epsilon, dual_clip"),
    ],
)
def test_wrong_conventions_of_a_file(name: str, value: Any, words: str) -> None:
    """A file with a convention that does not hold, or that nobody knows, is refused by the convention's name."""
    data = json.loads(CASE.to_json())
    data["spec"]["conventions"][name] = value
    with pytest.raises(CaseFormatError, match=re.escape(words)):
        Case.from_json(json.dumps(data))
