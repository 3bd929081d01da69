"""Entries that are generated: grouped by finding, stable, and written without touching the rest of the file."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from harness.config import Config
from harness.expectations.entry import Expect, Subject
from harness.expectations.findings import Finding, Seen
from harness.expectations.generating import generated
from harness.expectations.writing import rewritten
from reports.records import Cell

TRL = Subject("trl==1.9.0", "trl 1.9.0", "1.9.0")


def seen(*found: tuple[str, float, str, str, float], subject: Subject = TRL, clean: tuple[str, ...] = ()) -> Seen:
    """A run that found some: level, beta, dtype, signature, worst; `clean` dtypes conform at token, beta 0."""
    findings = {
        Cell(subject.label, "logps", "dapo", level, beta, dtype, "cpu"): Finding(signature, worst, "0123456789ab")
        for level, beta, dtype, signature, worst in found
    }
    right = [Cell(subject.label, "logps", "dapo", "token", 0.0, dtype, "cpu") for dtype in clean]
    return Seen({subject.label: subject}, (*findings, *right), findings, ())


def written(entries: list[Expect], text: str = "") -> str:
    return rewritten(text, (), entries, ())


def read(tmp_path: Path, text: str) -> tuple[Expect, ...]:
    path = tmp_path / "lossgate.toml"
    path.write_text(text)
    return Config.load(path).expect.entries


def test_one_finding_is_one_entry() -> None:
    """Cells that a product of levels, betas and dtypes describes are one entry; nothing else is in that."""
    entries = generated(
        (),
        seen(
            ("token", 0.0, "float64", "x", 3e15),
            ("token", 0.04, "float64", "x", 8e13),
            ("token", 0.0, "float32", "x", 5e6),
            ("token", 0.04, "float32", "x", 5e6),
            ("sequence", 0.0, "float32", "x", 5e6),
            ("sequence", 0.04, "float32", "y", math.inf),
        ),
    )
    assert [(entry.signature, entry.level, entry.beta, entry.dtype) for entry in entries] == [
        ("x", ("token",), (0.0, 0.04), ("float64", "float32")),
        ("x", ("sequence",), (0.0,), ("float32",)),
        ("y", ("sequence",), (0.04,), ("float32",)),
    ]
    assert {(entry.target, entry.version, entry.loss_type) for entry in entries} == {("trl", "==1.9.0", ("dapo",))}
    spans = {(span.dtype, span.low, span.high) for span in entries[0].spans}
    assert spans == {("float64", 1e12, 1e17), ("float32", 1e5, 1e8)}
    assert [(span.low, span.high) for span in entries[2].spans] == [(math.inf, math.inf)]


@pytest.mark.parametrize(("worst", "low", "high"), [(5e6, 1e5, 1e8), (1e6, 1e5, 1e7), (5.0, 1.0, 100.0)])
def test_a_range_has_a_decade_of_slack(worst: float, low: float, high: float) -> None:
    """Powers of ten, so that another seed gives the same entry; below 1 there is no divergence."""
    span = Finding("x", worst, "").span()
    assert span is not None
    assert (span.low, span.high) == (low, high)


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    """Texts that need quoting, ranges by dtype, infinity: the file says what the entries say."""
    entries = generated(
        (),
        seen(
            ("token", 0.0, "float64", 'a "quoted" \\ word\x7f', 3e15),
            ("token", 0.0, "float32", 'a "quoted" \\ word\x7f', math.inf),
            ("sequence", 0.04, "float64", "nothing compared", math.nan),
        ),
    )
    again = read(tmp_path, written(entries))
    assert [entry.spans for entry in again] == [entry.spans for entry in entries]
    assert [entry.signature for entry in again] == [entry.signature for entry in entries]
    assert generated(again, seen(("token", 0.0, "float16", "z", 2.0)))[: len(again)] == list(entries)


def test_a_run_of_some_cells_leaves_the_others(tmp_path: Path) -> None:
    """What was not judged stays, whatever the run found elsewhere; what was judged and conforms goes."""
    before = seen(("token", 0.0, "float64", "x", 3e15), ("token", 0.0, "float32", "x", 5e6))
    entries = read(tmp_path, written(generated((), before)))
    (partial,) = generated(entries, seen(clean=("float64",)))
    assert partial.dtype == ("float32",)
    (other_release,) = generated(entries, seen(subject=Subject("trl", "trl 1.16.0", "1.16.0"), clean=("float64",)))
    assert other_release.dtype == ("float64", "float32")


def test_a_reason_goes_with_its_finding(tmp_path: Path) -> None:
    """In another release the same finding has the same reason; another finding in the same cell has none yet."""
    text = written(generated((), seen(("token", 0.0, "float64", "x", 3e15))))
    entries = read(tmp_path, text.replace('"TODO: say why this is expected"', '"the window"'))
    newer = Subject("trl", "trl 1.16.0", "1.16.0")
    both = generated(entries, seen(("token", 0.0, "float64", "x", 3e15), subject=newer))
    assert [(entry.version, entry.reason) for entry in both] == [
        ("==1.16.0", "the window"),
        ("==1.9.0", "the window"),
    ]
    (other,) = generated(entries, seen(("token", 0.0, "float64", "y", 3e15)))
    assert other.lacks_reason


def test_a_wider_version_is_kept(tmp_path: Path) -> None:
    """A person who widened an entry to more releases is not undone, and nothing is added beside it."""
    text = written(generated((), seen(("token", 0.0, "float64", "x", 3e15))))
    entries = read(tmp_path, text.replace("==1.9.0", ">=1.9,<2"))
    newer = Subject("trl", "trl 1.16.0", "1.16.0")
    found = ("token", 0.0, "float64", "x", 2e14), ("token", 0.04, "float64", "x", 2e15)
    (entry,) = generated(entries, seen(*found, subject=newer))
    assert (entry.version, entry.beta) == (">=1.9,<2", (0.0, 0.04))
    assert [(span.low, span.high) for span in entry.spans] == [(1e14, 1e17)]


def test_comments_and_tables_stay_where_they_are(tmp_path: Path) -> None:
    """Only the entries that are ours change; one that is kept keeps the comments in it."""
    token, sequence = ("token", 0.0, "float64", "x", 3e15), ("sequence", 0.0, "float64", "y", 3e15)
    ours = written(generated((), seen(token, sequence))).split("\n\n")
    commented = ours[0].replace("generated = true", "# a comment in it\ngenerated = true")
    table = "# behind it\n\n[target.b]\nname = 'a'\n"
    text = f"# first\ntargets = ['a']\n\n{commented}\n{table}\n{ours[1].strip()}\n# last\n"
    entries = read(tmp_path, text)
    assert rewritten(text, entries, generated(entries, seen(token, sequence)), ()) == text
    left = generated(entries, seen(token, clean=()))
    without = generated(
        entries, Seen(seen(token).subjects, seen(token, sequence).judged, seen(token).findings, ())
    )
    assert len(left) == 2
    expected = f"# first\ntargets = ['a']\n{table}# last\n\n{commented}\n"
    assert rewritten(text, entries, without, ()) == expected


def test_windows_line_ends_are_kept() -> None:
    """A file has one kind of line end before and after."""
    text = rewritten("# mine\r\n", (), generated((), seen(("token", 0.0, "float64", "x", 3e15))), ())
    assert text.count("\n") == text.count("\r\n") > 5


def test_a_list_of_entries_takes_no_table_after_it(tmp_path: Path) -> None:
    """TOML has no way to add to it: that is refused, not written."""
    text = 'expect = [{ target = "a", reason = "b" }]\n'
    wanted = generated((), seen(("token", 0.0, "float64", "x", 3e15)))
    with pytest.raises(ValueError, match="expect"):
        rewritten(text, read(tmp_path, text), wanted, ())
