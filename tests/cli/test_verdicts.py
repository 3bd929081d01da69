"""Targets that misbehave, through the command: each is one clear verdict, and the run goes on to its end."""

from __future__ import annotations

from pathlib import Path

import pytest

from reports.run import Run
from tests.cli.conftest import EXAMPLE, Lossgate

FEW = ("--loss-type", "bnpo", "--dtype", "float32", "--level", "token", "--beta", "0", "--examples", "1", "-q")

# What is done on the first line of the loss, for one case in many: those of three completions.
MISBEHAVIOUR = {
    "diverges": "advantages = 1.001 * advantages",
    "nondeterministic": "advantages = advantages + __import__('random').SystemRandom().random()",
    "error": "raise ValueError('no third completion')",
    "crash": "__import__('os')._exit(7)",
    "timeout": "__import__('time').sleep(60)",
    "unsupported": "raise NotImplementedError('three completions')",
}
MESSAGES = {
    "diverges": "the formula gives",
    "nondeterministic": "two answers to the same case differ by more than rounding allows",
    "error": "raised ValueError: no third completion",
    "crash": "exit status 7",
    "timeout": "within 2 s",
    "unsupported": "three completions",
}


@pytest.mark.parametrize("verdict", MISBEHAVIOUR)
def test_one_kind_of_case_goes_wrong(verdict: str, lossgate: Lossgate, folder: Path) -> None:
    """The cases that go wrong have their verdict, in words; all others are judged as ever."""
    text = EXAMPLE.read_text()
    first = "    if advantages.dim() == 1:\n"
    assert text.count(first) == 1
    wrong = f"    if logps.shape == (3, 4):\n        {MISBEHAVIOUR[verdict]}\n{first}"
    (folder / "wrong.py").write_text(text.replace(first, wrong))
    result = lossgate("run", "wrong:loss", *FEW, "--timeout", "2", "--out", "out")
    run = Run.load(folder / "out")
    assert run.complete
    rows = run.rows[run.rows["phase"] != "shrunk"]
    hit = (rows["rows"] == 3) & (rows["columns"] == 4)
    # What carries an option that this function lacks is unsupported before it is asked.
    asked = rows[hit & ~rows["message"].str.contains("is not supported")]
    assert set(asked["verdict"]) == {verdict}
    assert asked["message"].str.contains(MESSAGES[verdict], regex=False).all()
    assert not set(rows[~hit]["verdict"]) - {"conforms", "overflow", "unsupported"}
    assert result.returncode == (0 if verdict == "unsupported" else 1), result.stdout
    if verdict != "unsupported":
        assert verdict.upper() in result.stdout
