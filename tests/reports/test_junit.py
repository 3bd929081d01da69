"""JUnit XML: valid by the published schemas, and never green where a gate must not open."""

from __future__ import annotations

import copy
from importlib.resources import files
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree as ET

import pytest
from lxml import etree

from reports import junit
from reports.gate import Gate
from reports.gating import gate_of
from reports.schema import ROWS
from tests.reports.gates import HOSTILE, MakeRecord, RowsOf, every_verdict, facts, finding, gate

# What Jenkins' xUnit plugin allows (junit-10.xsd), by element: attributes, those required, children.
JENKINS: Final[dict[str, tuple[set[str], set[str], set[str]]]] = {
    "testsuites": ({"name", "time", "tests", "failures", "errors"}, set(), {"testsuite"}),
    "testsuite": (
        {
            "name",
            "tests",
            "failures",
            "errors",
            "group",
            "time",
            "skipped",
            "timestamp",
            "hostname",
            "id",
            "package",
        },
        {"name", "tests", "failures", "errors"},
        {"testsuite", "properties", "testcase", "system-out", "system-err"},
    ),
    "properties": (set(), set(), {"property"}),
    "property": ({"name", "value"}, {"name", "value"}, set()),
    "testcase": (
        {"name", "time", "classname", "group"},
        {"name"},
        {"skipped", "error", "failure", "system-out", "system-err"},
    ),
    "skipped": ({"type", "message"}, set(), set()),
    "error": ({"type", "message"}, set(), set()),
    "failure": ({"type", "message"}, set(), set()),
    "system-out": (set(), set(), set()),
    "system-err": (set(), set(), set()),
}


def ant_schema() -> etree.XMLSchema:
    """The schema of Ant's reports that ub-test-reports ships, with what its later versions allow: `skipped`."""
    tree = etree.fromstring((files("ub_test_reports") / "schemas" / "JUnit.xsd").read_bytes())
    xs = "{http://www.w3.org/2001/XMLSchema}"
    (choice,) = tree.iter(f"{xs}choice")
    choice.append(etree.Element(f"{xs}element", name="skipped"))
    (errors,) = (one for one in tree.iter(f"{xs}attribute") if one.get("name") == "errors")
    skipped = copy.deepcopy(errors)
    skipped.set("name", "skipped")
    skipped.set("use", "optional")
    errors.addnext(skipped)
    return etree.XMLSchema(tree)


def parsed(shown: Gate) -> ET.Element:
    """The document, after both schemas took it."""
    text = junit.render(shown)
    ant_schema().assertValid(etree.fromstring(text.encode()))
    root = ET.fromstring(text.encode())
    for element in root.iter():
        allowed, required, children = JENKINS[element.tag]
        assert required <= set(element.attrib) <= allowed
        assert {child.tag for child in element} <= children
    return root


def outcomes(root: ET.Element) -> dict[str, str]:
    """How each test ended, by the first word of its name."""
    return {
        case.attrib["name"].split()[0]: next((child.tag for child in case), "passed")
        for case in root.iter("testcase")
    }


def test_every_verdict_has_its_outcome(record: MakeRecord, rows_of: RowsOf) -> None:
    """A failing verdict fails, an exception, crash or timeout is an error, known and unsupported are skipped."""
    root = parsed(gate(rows_of, every_verdict(record)))
    assert outcomes(root) == {
        "conforms": "passed",
        "overflow": "passed",
        "nondeterministic": "failure",
        "error": "error",
        "timeout": "error",
        "crash": "error",
        "diverges": "failure",
        "known": "skipped",
        "unsupported": "skipped",
    }
    (suite,) = root
    counts = {name: suite.attrib[name] for name in ("tests", "failures", "errors", "skipped")}
    assert counts == {"tests": "9", "failures": "2", "errors": "3", "skipped": "2"}


def test_a_failure_says_what_is_wrong_and_how_to_see_it_again(record: MakeRecord, rows_of: RowsOf) -> None:
    """Its message is the signature; its text has numbers, witness, command and the place of the loss."""
    records = every_verdict(record)
    diverging = next(one for one in records if one.verdict.value == "diverges")
    shown = gate(rows_of, records, path=Path("runs/a b"), findings=[finding(diverging, "computes bnpo")])
    (failure,) = (one for one in parsed(shown).iter("failure") if one.get("type") == "diverges")
    assert failure.get("message") == "computes bnpo"
    lines = str(failure.text).splitlines()
    assert "loss: largest error 4e-3, 1e6 ulps, error / bound 1e4 (above 1: not rounding)" in lines
    assert f"witness: case {diverging.case_id}" in lines
    assert "  what was seen: diverges" in lines
    assert f"replay: lossgate replay 'runs/a b/cases/{diverging.case_id}.json' trl" in lines
    assert "the loss: trl.py:7" in lines


def test_the_reason_of_a_known_divergence_is_its_message(record: MakeRecord, rows_of: RowsOf) -> None:
    """It is in the attribute and in the text: reporters show one or the other."""
    root = parsed(gate(rows_of, every_verdict(record)))
    (known,) = (one for one in root.iter("skipped") if one.get("type") == "known")
    assert known.get("message") == known.text == "what was seen: known"


def test_a_test_keeps_its_name_when_the_version_changes(record: MakeRecord, rows_of: RowsOf) -> None:
    """Its class is the target as asked for, so that its history goes on; the suite's name has the version."""
    (suite,) = parsed(gate(rows_of, [record(target="trl 1.16.0")]))
    assert suite.attrib["name"] == "trl 1.16.0"
    assert [case.attrib["classname"] for case in suite.iter("testcase")] == ["trl"]


def test_no_test_of_a_run_that_was_cut_short_passes(record: MakeRecord, rows_of: RowsOf) -> None:
    """One test more is an error that says so, and cells that conform so far are skipped."""
    shown = gate(rows_of, [record(), record(loss_type="overflow")], complete=False, missing_regions={"x": ["y"]})
    root = parsed(shown)
    assert "passed" not in outcomes(root).values()
    (error,) = root.iter("error")
    assert "the run did not come to its end" in error.attrib["message"]


def test_a_run_that_was_killed_at_once_is_an_error() -> None:
    """Without a row, and without a target that answered."""
    shown = gate_of(ROWS.empty_table().to_pandas(), {"complete": False})
    assert outcomes(parsed(shown)) == {"the": "error"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"missing_regions": {"trl 1.16.0 grpo token beta 0.04 float32": ["clipped_high"]}},
            "never met clipped_high",
        ),
        ({"exit_code": 4}, "exit code 4"),
        ({"exit_code": 0, "targets": {"trl 1.16.0": {}, "verl 0.9": {}}}, "nothing of it was compared"),
    ],
)
def test_what_does_not_pass_is_not_green(
    changes: dict[str, Any], message: str, record: MakeRecord, rows_of: RowsOf
) -> None:
    """A region never met, an exit code that no cell explains, and a target of which nothing was compared."""
    (error,) = parsed(gate(rows_of, [record()], **changes)).iter("error")
    assert message in error.attrib["message"]


@pytest.mark.parametrize("fails", [False, True])
def test_a_stale_expectation_is_said(fails: bool, record: MakeRecord, rows_of: RowsOf) -> None:
    """It is in the output of the run; where it fails the run, it is an error."""
    stale = {
        "expects": {"target": "trl", "reason": "known", "line": 3},
        "outcome": "matched nothing",
        "fails": fails,
        "message": "remove it",
        "cells": [],
        "cases": 0,
        "worst": None,
    }
    about = {"exit_code": int(fails), "config": "lossgate.toml", "expectations": [stale]}
    root = parsed(gate(rows_of, [record()], **about))
    said = "expectation matched nothing: trl: remove it (lossgate.toml, line 3)"
    assert said in str(root[0].findtext("system-err" if fails else "system-out"))
    assert [one.get("type") for one in root.iter("error")] == ["expectation"] * fails


@pytest.mark.parametrize("complete", [True, False])
def test_hostile_names_and_messages_stay_text(complete: bool, record: MakeRecord, rows_of: RowsOf) -> None:
    """Markup, control characters and broken ones are shown, and the document stays what it is."""
    records = [
        record(target=f"{HOSTILE} {one.cell.loss_type}", loss_type="x", verdict=one.verdict, message=HOSTILE)
        for one in every_verdict(record)
    ]
    labels = [one.cell.target for one in records]
    about = {**facts(labels), "complete": complete, "requested": labels}
    root = parsed(gate_of(rows_of(records), about))
    assert len(root) == len(records) + (not complete)
    assert all("\\x1b[31m\\x00\\ufffe" in str(one.get("message")) for one in root.iter("failure"))
