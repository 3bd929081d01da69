"""`lossgate faults`: which seeded faults the cases catch, after how many cases, and why not where they do not."""

from __future__ import annotations

import json

from tests.cli.conftest import Lossgate

FEW = ("--only", "no_clip,scale_1e-4,none,f32_inside", "--dtype", "float32,bfloat16", "--quiet")


def test_each_fault_has_a_row_and_all_a_score(lossgate: Lossgate) -> None:
    """The number of the case that caught it, or why none could; then one line for the whole."""
    result = lossgate("faults", *FEW)
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    rows = {line.split()[0]: line.split()[1:3] for line in lines[1:5]}
    assert lines[0].split() == ["fault", "float32", "bfloat16"]
    assert list(rows) == ["none", "no_clip", "f32_inside", "scale_1e-4"]
    assert rows["none"] == ["equal", "equal"]
    assert all(case.isdigit() for case in rows["no_clip"])
    assert rows["f32_inside"] == ["-", "-"]
    assert rows["scale_1e-4"][0].isdigit()
    assert rows["scale_1e-4"][1] == "drowned"
    assert "the ratio is not clipped" in result.stdout
    score = "2 of 2 faults caught, 1 equivalent, 1 that show in no dtype asked for  (profile ci, seed 0)"
    assert lines[-1] == score
    assert result.stderr == ""


def test_json_says_what_caught_a_fault(lossgate: Lossgate) -> None:
    """The case, its phase, its cell and what was seen; the same however many are tried at a time."""
    found = [json.loads(lossgate("faults", *FEW, "--format", "json", "--jobs", jobs).stdout) for jobs in "13"]
    assert found[0] == found[1]
    assert found[0]["format"] == "lossgate-faults/1"
    assert found[0]["exit_code"] == 0
    dtypes = {fault["name"]: fault["dtypes"] for fault in found[0]["faults"]}
    caught = dtypes["no_clip"]["float32"]
    assert caught["fate"] == "caught"
    assert caught["phase"] in ("corpus", "regions")
    assert caught["cell"].endswith("beta 0")
    assert "the formula gives" in caught["message"]
    drowned = dtypes["scale_1e-4"]["bfloat16"]
    assert drowned["fate"] == "drowned"
    assert drowned["cases"] > 200
    assert 0 < drowned["nearest"] < 1


def test_a_promise_on_padding_is_a_fault_of_its_own_kind(lossgate: Lossgate) -> None:
    """No case can catch who multiplies NaN by 0: padding hygiene does, and says which tensor leaks."""
    result = lossgate("faults", "--only", "fault:padding_times_0", "--dtype", "float32", "-q", "--format", "json")
    assert result.returncode == 0, result.stderr
    (fault,) = json.loads(result.stdout)["faults"]
    caught = fault["dtypes"]["float32"]
    assert (caught["phase"], caught["case"]) == ("padding", None)
    assert "values at masked positions change the answer: in " in caught["message"]


def test_an_unknown_fault_is_wrong_usage(lossgate: Lossgate) -> None:
    """The nearest name is shown; so is what else is wrong with the command."""
    result = lossgate("faults", "--only", "no_clp")
    assert result.returncode == 2
    assert "no fault named 'no_clp'" in result.stderr
    assert "did you mean 'no_clip'?" in result.stderr
    assert lossgate("faults", "--profile", "weekly").returncode == 2
    assert lossgate("faults", "--jobs", "0").returncode == 2


def test_an_interpreter_without_torch_is_said(lossgate: Lossgate) -> None:
    """The faults run in the interpreter that is named, as every target does."""
    result = lossgate("faults", "--only", "no_clip", "--python", "no-such-python")
    assert result.returncode == 3
    assert "there is no no-such-python on the PATH" in result.stderr
