"""`lossgate parity` as a command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.parity.execution import executions_of
from tests.cli.conftest import Lossgate

CELL = ("--loss-type", "bnpo", "--beta", "0", "--level", "token", "--quiet")


def test_two_ways_of_executing_a_sound_loss_are_equal(lossgate: Lossgate, folder: Path) -> None:
    """The table has a row for each dtype and execution, JSON has the schema's keys, and --out keeps both."""
    result = lossgate(
        "parity", "printed:loss", *CELL, "--threads", "1,2", "--dtypes", "float32,bfloat16", "--out", "kept"
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert "printed:loss: 2 cells, 2 of 2 executions; 2 equal" in result.stdout
    rows = [line.split() for line in result.stdout.splitlines() if line.startswith(("float32", "bfloat16"))]
    assert [row[:4] for row in rows] == [
        [dtype, "cpu", count, "thread" if count == "1" else "threads"]
        for dtype in ("float32", "bfloat16")
        for count in ("1", "2")
    ]
    data = json.loads((folder / "kept" / "parity.json").read_text())
    assert data["format"] == "lossgate-parity/1"
    assert data["reference"] == "cpu 1 thread"
    assert [pair["verdict"] for cell in data["cells"] for pair in cell["pairs"]] == ["equal", "equal"]
    assert data["executions"][1]["settings"]["flush_denormal"] is False
    assert (folder / "kept" / "parity.md").read_text().startswith("# printed:loss: parity\n")
    assert not (folder / "kept" / "cases").exists()


def test_what_fails_is_kept_and_can_be_put_again(lossgate: Lossgate, folder: Path) -> None:
    """A wrong loss exits with 1, and the case that shows it replays."""
    wrong = ("--loss-type", "grpo", *CELL[2:], "--dtypes", "float32", "--format", "json", "--out", "kept")
    result = lossgate("parity", "printed:loss", *wrong)
    assert result.returncode == 1, result.stderr
    (voice,) = json.loads(result.stdout)["cells"][0]["voices"]
    assert voice["verdict"] == "diverges"
    assert voice["explanation"] == "computes bnpo"
    case = folder / "kept" / "cases" / f"{voice['witness']}.json"
    again = lossgate("replay", case, "printed:loss")
    assert again.returncode == 1, again.stdout + again.stderr


def test_a_device_that_is_not_there_is_in_the_table(lossgate: Lossgate) -> None:
    """It is said with torch's reason; where nothing is left to compare, the exit code is 4."""
    result = lossgate("parity", "printed:loss", *CELL, "--devices", "cpu,xpu", "--dtypes", "float32")
    assert result.returncode == 4, result.stdout + result.stderr
    assert "xpu: not available (no device 'xpu'" in result.stdout
    assert "nothing to compare the reference with" in result.stdout


@pytest.mark.parametrize(
    ("option", "value", "hint"),
    [
        ("--compile", "inductr", "did you mean 'inductor'?"),
        ("--contract", "fast", "fast_exp"),
        ("--threads", "no", ""),
    ],
)
def test_wrong_usage_ends_at_once(lossgate: Lossgate, option: str, value: str, hint: str) -> None:
    """The exit code is 2, and the message says what was meant."""
    result = lossgate("parity", "printed:loss", *CELL, option, value)
    assert result.returncode == 2
    assert repr(value) in result.stderr
    assert hint in result.stderr


def test_a_library_whose_call_is_not_known_is_not_compiled(lossgate: Lossgate) -> None:
    """It is not available, rather than at fault."""
    result = lossgate("parity", "liger==0.8.5", *CELL, "--compile", "eager,inductor", "--dtypes", "float32")
    assert result.returncode == 4, result.stdout + result.stderr
    assert "cpu inductor: not available (which call of" in result.stdout


def test_executions_are_every_combination_and_the_other_target_once() -> None:
    """The other target is the reference, executed in the first of the ways that are listed."""
    ways = executions_of("mine", "theirs", "cpu,cuda", "eager,inductor", "1")
    assert [one.named(ways) for one in ways] == [
        "theirs cpu eager",
        "mine cpu eager",
        "mine cpu inductor",
        "mine cuda eager",
        "mine cuda inductor",
    ]
    assert [one.named(ways[:1]) for one in ways[:1]] == ["cpu"]
