"""A case has an id that is its content, and survives being written to a file, bit by bit."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from dataclasses import FrozenInstanceError, replace
from typing import Any

import numpy as np
import pytest
from example_batches import batch, case, cases, respecified, same_bits, with_bit_flipped
from hypothesis import given, settings

from cases.case import FORMAT, ID_DIGITS, Case, CaseFormatError
from cases.conventions import Conventions, EmptyRows, PaddingPromise
from cases.dtypes import DTYPES, FLOAT64
from cases.spec import LossSpec
from cases.split import Split

CASE = case({"beta": 0.5})
TEXT = CASE.to_json()

REPLACEMENTS: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2, 1.5, -0.0, float("nan"), float("inf"), 1e308, 10**30),
    *("", "x", "0x1p+0", "nan", "inf", "0x1p+99999", "\ud800", "1" * 50),
    *([], [[]], [1], ["0x1p+0"], [["0x1p+0"]], [[["0x1p+0"]]], [[], ["0x1p+0"]], {}, {"a": 1}),
)
"""One of every kind of JSON value, and some that look like what is wanted."""


@settings(max_examples=300, deadline=None, derandomize=True)
@given(cases())
def test_round_trip(drawn: Case) -> None:
    """Reading what was written gives the same bits, spec and split, and the same id."""
    again = Case.from_json(drawn.to_json())
    assert same_bits(again.batch, drawn.batch)
    assert (again.spec, again.split, again.id) == (drawn.spec, drawn.split, drawn.id)
    assert again == drawn
    assert again.to_json() == drawn.to_json()


def test_text_is_json_with_a_row_a_line() -> None:
    """The file says what it is, and a tensor can be read by eye."""
    data = json.loads(TEXT)
    assert (data["format"], data["id"]) == (FORMAT, CASE.id)
    assert data["batch"]["logps"] == [["-0x1p+0", "-0x1p-1", "-0x1p-2"], ["-0x1p+1", "-0x1p-3", "-0x1.8p+0"]]
    lines = [line.strip() for line in TEXT.splitlines()]
    assert '["-0x1p+0", "-0x1p-1", "-0x1p-2"],' in lines
    assert "[1, 1, 0]," in lines
    assert TEXT.endswith("}\n")
    assert TEXT.isascii()


def test_layout_of_the_text_does_not_matter() -> None:
    """The same JSON in one line, or in another order, is the same case."""
    data = json.loads(TEXT)
    turned = dict(reversed(list(data.items())))
    for text in (json.dumps(data), json.dumps(turned, indent=7), f"\n {TEXT} \n"):
        assert Case.from_json(text) == CASE


def changed_cases() -> Iterator[tuple[str, Case]]:
    made = CASE.batch
    for name in ("logps", "old_logps", "ref_logps", "advantages"):
        yield name, replace(CASE, batch=replace(made, **{name: with_bit_flipped(getattr(made, name))}))
    garbage = made.logps.copy()
    garbage[1, 2] = -3.0
    assert not made.mask[1, 2]
    yield "masked position", replace(CASE, batch=replace(made, logps=garbage))
    yield "no old_logps", replace(CASE, batch=replace(made, old_logps=None))
    yield "advantages per token", replace(CASE, batch=replace(made, advantages=made.token_advantages))
    yield "mask", replace(CASE, batch=replace(made, mask=~made.mask))
    yield "dtype", replace(CASE, batch=replace(made, dtype=FLOAT64))
    yield "sign of zero", replace(CASE, batch=replace(made, ref_logps=np.zeros((2, 3))))
    yield "other sign of zero", replace(CASE, batch=replace(made, ref_logps=-np.zeros((2, 3))))
    yield "loss_type", respecified(CASE, loss_type="bnpo")
    yield "level", respecified(CASE, importance_sampling_level="sequence")
    for name in ("beta", "epsilon_low", "epsilon_high"):
        yield name, respecified(CASE, **{name: np.nextafter(getattr(CASE.spec, name), 1.0)})
    yield "length", respecified(CASE, max_completion_length=257)
    yield "empty rows", respecified(CASE, conventions=Conventions(EmptyRows.NOT_COUNTED))
    for promises in ((), (PaddingPromise.FINITE, PaddingPromise.NAN)):
        yield f"padding {promises}", respecified(CASE, conventions=Conventions(padding=promises))
    yield "ranks", replace(CASE, split=Split(ranks=2))
    yield "steps", replace(CASE, split=Split(steps_per_generation=2))
    yield "accumulation", replace(CASE, split=Split(1, 2, 2))


def test_id_changes_with_every_bit() -> None:
    """Whatever is changed, the id is another one; none occurs twice."""
    ids = {"unchanged": CASE.id, **{name: changed.id for name, changed in changed_cases()}}
    assert len(set(ids.values())) == len(ids) > 20
    assert all(re.fullmatch(f"[0-9a-f]{{{ID_DIGITS}}}", one) for one in ids.values())


def test_id_is_of_the_content_alone() -> None:
    """The same numbers made in another way have the same id."""
    made = CASE.batch
    same = batch(
        logps=made.logps.tolist(), old_logps=np.asfortranarray(made.old_logps), mask=made.mask.copy(order="F")
    )
    assert Case(same, LossSpec("grpo", beta=0.5)).id == CASE.id  # type: ignore[arg-type] # read as a member
    assert case({"beta": 0.5}, Split(1, 1, 1)).id == CASE.id
    assert respecified(CASE, beta=1).id == respecified(CASE, beta=1.0).id


@settings(max_examples=50, deadline=None, derandomize=True)
@given(cases(), cases())
def test_ids_agree_exactly_where_contents_do(ours: Case, theirs: Case) -> None:
    """Two cases have one id if and only if they are written alike."""
    assert (ours.id == theirs.id) == (ours.to_json() == theirs.to_json())


def test_cases_do_not_change() -> None:
    """A case is a value."""
    with pytest.raises(FrozenInstanceError):
        CASE.spec = LossSpec("bnpo")  # type: ignore[arg-type, misc] # that is the point


def test_kl_needs_a_reference() -> None:
    """A KL term without reference log-probabilities is refused."""
    with pytest.raises(
        ValueError, match=r"^ref_logps: got None, takes a tensor when beta is not 0 \(beta is 0.5\)$"
    ):
        case({"beta": 0.5}, ref_logps=None)
    assert case(ref_logps=None).batch.ref_logps is None


@pytest.mark.parametrize("split", [Split(ranks=3), Split(2, 1, 2), Split(1, 1, 3)])
def test_rows_are_split_evenly(split: Split) -> None:
    """The rows are a multiple of the micro-batches."""
    with pytest.raises(ValueError, match=r"^split: got 2 rows, takes a multiple of \d micro-batches$"):
        case(split=split)


def refused(text: str) -> str:
    """The one sentence that a text is refused with."""
    with pytest.raises(CaseFormatError) as raised:
        Case.from_json(text)
    message = str(raised.value)
    assert message
    assert "\n" not in message
    return message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the case file is empty"),
        (" \n", "the case file is empty"),
        ("not json", "the case file is not JSON, or was cut short ("),
        (TEXT + "x", "the case file is not JSON, or was cut short ("),
        (TEXT * 2, "the case file is not JSON, or was cut short ("),
        ("null", 'the file is no case of this format: it needs "format": "lossgate-case/1"'),
        ("[]", "the file is no case of this format: "),
        ('{"rows": 3}', "the file is no case of this format: "),
        (TEXT.replace("case/1", "case/2"), "the file is no case of this format: "),
        (
            TEXT.replace('"float32"', '"float8"'),
            "the case does not hold: dtype: got 'float8', takes one of float64, ",
        ),
        (TEXT.replace('"beta"', '"gamma"'), "the case does not hold: gamma: unknown, takes "),
        (
            TEXT.replace('"-0x1p-3"', "-0.125"),
            "the case does not hold: logps: got -0.125, takes hexadecimal floats",
        ),
        (
            TEXT.replace('"-0x1p-3"', '"-0x1p-200"'),
            "the case does not hold: logps: got a value that float32 cannot",
        ),
        (TEXT.replace("[1, 1, 0]", "[1, 2, 0]"), "the case does not hold: mask: takes a list of rows of 0 and 1"),
        (TEXT.replace("[1, 1, 0]", "[1, 1]"), "the case does not hold: mask: takes rows of equal length"),
    ],
)
def test_what_is_no_case_is_refused(text: str, message: str) -> None:
    """Empty, cut, foreign and edited files each get their own sentence."""
    assert refused(text).startswith(message)


def test_edited_content_is_noticed() -> None:
    """Content that does not match its id is refused, with the id that would make it a case of its own."""
    edited = TEXT.replace('"-0x1p-3"', '"-0x1p-4"')
    message = refused(edited)
    assert "it was edited" in message
    (own,) = re.findall(r'write "id": "([0-9a-f]+)"', message)
    accepted = Case.from_json(edited.replace(CASE.id, own))
    assert accepted.id == own != CASE.id
    assert accepted.batch.logps[1, 1] == -(2.0**-4)


def test_cut_short_at_every_length() -> None:
    """Wherever the text ends, it is refused as one that was cut short."""
    whole = len(TEXT.rstrip())
    for length in range(whole):
        expected = "is not JSON, or was cut short" if TEXT[:length].strip() else "is empty"
        assert expected in refused(TEXT[:length])
    assert Case.from_json(TEXT[:whole]) == CASE


def paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where every value of some JSON data is."""
    yield path
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, entry in entries:
        yield from paths(entry, (*path, key))


def edited(path: tuple[Any, ...], change: Any) -> str:
    """The case's text with `change(container, key)` applied to one of its values."""
    data = {"": copy.deepcopy(json.loads(TEXT))}
    place: Any = data
    for key in ("", *path)[:-1]:
        place = place[key]
    change(place, ("", *path)[-1])
    return json.dumps(data.get(""))


@pytest.mark.parametrize("path", list(paths(json.loads(TEXT))), ids=lambda path: ".".join(map(str, path)) or "all")
def test_every_value_of_every_other_type(path: tuple[Any, ...]) -> None:
    """Any value replaced by any other, or left out: refused in a sentence, unless it says the same as before."""
    texts = [edited(path, lambda place, key, new=new: place.__setitem__(key, new)) for new in REPLACEMENTS]
    texts.append(edited(path, lambda place, key: place.pop(key)))
    for text in texts:
        try:
            assert Case.from_json(text) == CASE
        except CaseFormatError:
            assert refused(text)


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=list(DTYPES))
def test_largest_and_smallest_numbers_survive(dtype: Any) -> None:
    """The ends of a dtype's range, subnormals and both zeros are written to the bit."""
    smallest = 2.0 ** (dtype.min_exponent - dtype.precision + 1)
    ends = [[dtype.largest, -dtype.largest, smallest], [-smallest, 0.0, -0.0]]
    written = case(dtype=dtype, logps=ends)
    assert same_bits(Case.from_json(written.to_json()).batch, written.batch)
