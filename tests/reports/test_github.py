"""What GitHub Actions is told: annotations that stay one line each, and a job summary."""

from __future__ import annotations

import re
from typing import Any

import pytest

from reports import github
from reports.gating import gate_of
from reports.records import Verdict
from tests.reports.gates import HOSTILE, MakeRecord, RowsOf, every_verdict, facts, finding, gate

COMMAND = re.compile(r"::(error|warning) ([^:]*)::(.*)")
ESCAPES = {"%0D": "\r", "%0A": "\n", "%3A": ":", "%2C": ",", "%25": "%"}


def read(text: str) -> str:
    """A value as the runner unescapes it."""
    return re.sub("%(0D|0A|3A|2C|25)", lambda found: ESCAPES[found.group()], text)


def told(commands: str) -> list[dict[str, str]]:
    """Workflow commands, taken apart as the runner does."""
    found = []
    for line in commands.splitlines():
        match = COMMAND.fullmatch(line)
        assert match is not None, line
        values = dict(pair.split("=", 1) for pair in match[2].split(","))
        found.append(
            {"kind": match[1], **{name: read(value) for name, value in values.items()}, "": read(match[3])}
        )
    return found


def test_an_annotation_is_at_the_loss(record: MakeRecord, rows_of: RowsOf) -> None:
    """It names file and line in the repository, the target in its title, and the cell and what is wrong there."""
    diverging = record(verdict=Verdict.DIVERGES)
    (one,) = told(github.commands(gate(rows_of, [diverging], findings=[finding(diverging, "computes bnpo")])))
    assert (one["kind"], one["file"], one["line"]) == ("error", "trl.py", "7")
    assert one["title"] == "lossgate: trl 1.16.0"
    assert one[""].splitlines()[0] == "diverges in grpo token beta 0.04 float32: computes bnpo"


@pytest.mark.parametrize("source", [None, {"file": "/usr/lib/loss.py", "line": 3}])
def test_a_loss_outside_of_the_repository_has_no_place(
    source: dict[str, Any] | None, record: MakeRecord, rows_of: RowsOf
) -> None:
    """GitHub knows the files of the repository alone."""
    records = [record(verdict=Verdict.DIVERGES)]
    (one,) = told(github.commands(gate(rows_of, records, targets={"trl 1.16.0": {"source": source}})))
    assert "file" not in one


def test_cells_in_which_the_same_is_wrong_share_one(record: MakeRecord, rows_of: RowsOf) -> None:
    """The annotation names some of them and counts the rest."""
    records = [record(verdict=Verdict.DIVERGES, beta=float(beta)) for beta in range(8)]
    (one,) = told(github.commands(gate(rows_of, records, findings=[finding(each, "same") for each in records])))
    assert "grpo token beta 0 float32, " in one[""]
    assert "and 3 more cells: same" in one[""]


@pytest.mark.parametrize(("findings", "shown"), [(10, 10), (11, 10), (30, 10)])
def test_no_more_errors_than_github_shows(findings: int, shown: int, record: MakeRecord, rows_of: RowsOf) -> None:
    """What does not fit is counted in the last one."""
    records = [record(verdict=Verdict.DIVERGES, beta=float(n), message=f"wrong {n}") for n in range(findings)]
    found = told(github.commands(gate(rows_of, records)))
    assert len(found) == shown
    named = sum("diverges in" in one[""] for one in found)
    more = re.fullmatch(r"(\d+) more findings: the job summary has all", found[-1][""])
    assert named + (int(more[1]) if more else 0) == findings


def test_hostile_names_and_messages_stay_one_command(record: MakeRecord, rows_of: RowsOf) -> None:
    """Nothing that a target says begins a command of its own, and it reads back as it was."""
    hostile = record(target=HOSTILE, verdict=Verdict.ERROR, message=f"raised {HOSTILE}")
    about = {**facts([HOSTILE], exit_code=1), "requested": [HOSTILE]}
    about["targets"][HOSTILE]["source"]["file"] = "/home/me/fork/a,b::c%0A.py"
    (one,) = told(github.commands(gate_of(rows_of([hostile]), about)))
    assert one["file"] == "a,b::c%0A.py"
    assert "100%" in one[""]
    assert "\\x1b[31m\\x00\\ufffe" in one["title"]


def test_a_run_that_was_cut_short_is_an_error(record: MakeRecord, rows_of: RowsOf) -> None:
    """Though nothing that was judged fails, and the summary begins with it."""
    shown = gate(rows_of, [record()], complete=False)
    (one,) = told(github.commands(shown))
    assert "the run did not come to its end" in one[""]
    assert github.job_summary(shown).splitlines()[3].startswith("> **INCOMPLETE**")
    assert "all conform" not in github.job_summary(shown).replace("so far, ", "")


def test_a_pass_says_nothing(record: MakeRecord, rows_of: RowsOf) -> None:
    """A run that passes has no annotation."""
    assert github.commands(gate(rows_of, [record()])) == ""


def test_the_summary_says_what_fails_and_what_is_known(record: MakeRecord, rows_of: RowsOf) -> None:
    """What stops the gate comes first, then what is known with its reason, then every cell."""
    lines = github.job_summary(gate(rows_of, every_verdict(record))).splitlines()
    stops, known = lines.index("## What stops the gate"), lines.index("## Known divergences")
    every = lines.index("<summary>Every cell</summary>")
    assert stops < known < every
    failing = {line.split(" | ")[2] for line in lines[stops + 4 : known - 1]}
    assert failing == {one.value.upper() for one in Verdict if one.fails}
    assert "what was seen: known" in lines[known + 4]


def test_the_summary_is_no_larger_than_github_takes(record: MakeRecord, rows_of: RowsOf) -> None:
    """A larger one is lost as a whole: every cell is left out, and then what does not fit, and that is said."""
    long = "ü" * 1000
    records = [record(verdict=Verdict.DIVERGES, beta=float(n), message=f"{long} {n}") for n in range(600)]
    text = github.job_summary(gate(rows_of, records))
    assert len(text.encode()) <= 2**20
    assert "cut short here" in text


def test_hostile_text_makes_no_markdown(record: MakeRecord, rows_of: RowsOf) -> None:
    """A name holds no link, no table column and no tag."""
    hostile = record(target=HOSTILE, verdict=Verdict.ERROR, message=HOSTILE)
    about = {**facts([HOSTILE], exit_code=1), "requested": [HOSTILE]}
    text = github.job_summary(gate_of(rows_of([hostile]), about))
    assert "<a " not in text
    assert "[x](" not in text
