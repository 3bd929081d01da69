"""Expectations through the command: what is expected passes, what is not fails, what is over is reported."""

from __future__ import annotations

import json
import subprocess
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from reports import json_report, markdown
from reports.run import Run
from reports.table import cell_table
from tests.cli.conftest import Lossgate

ONE_CELL = ("--dtype", "float32", "--level", "token", "--beta", "0", "--examples", "2", "-q")
PRINTED = """\
[[expect]]
target = "printed:loss"
loss_type = "grpo"
signature = "computes bnpo"
range = [1e3, 1e8]
reason = "the page prints another formula"
"""

Judge = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def judge(lossgate: Lossgate, folder: Path) -> Judge:
    """`judge(config, *arguments)`: as grpo in one cell, with a lossgate.toml; without a target, `printed:loss`."""

    def judged(config: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        (folder / "lossgate.toml").write_text(config)
        targets = () if any(":" in argument for argument in arguments) else ("printed:loss",)
        return lossgate("run", *targets, "--loss-type", "grpo", *ONE_CELL, *arguments)

    return judged


def copies(folder: Path, changes: dict[str, tuple[str, str]]) -> str:
    """A configuration with the entry of PRINTED, changed, for each of these copies of the printed function."""
    for name in changes:
        (folder / f"{name}.py").write_text((folder / "printed.py").read_text())
    return "\n".join(PRINTED.replace(*change).replace("printed:", f"{name}:") for name, change in changes.items())


def test_what_is_expected_passes_and_is_listed(judge: Judge, folder: Path) -> None:
    """The run passes, its table has the reason, and run.json has the cells, with what was found in them."""
    result = judge(PRINTED, "--out", "out")
    assert result.returncode == 0, result.stdout
    assert "expectations: 1 as expected" in result.stdout
    assert "the page prints another formula" in " ".join(result.stdout.split())
    assert max(map(len, result.stdout.splitlines())) <= 100
    (record,) = Run.load(folder / "out").facts["expectations"]
    assert (record["outcome"], record["fails"], record["message"]) == ("as expected", False, "")
    (cell,) = record["cells"]
    assert (cell["loss_type"], cell["found"], cell["problem"]) == ("grpo", "computes bnpo", "")
    assert record["cases"] == cell["cases"] > 30
    assert 1e6 < record["worst"] < 1e7


def test_what_is_not_as_expected_fails(judge: Judge, folder: Path) -> None:
    """A signature that does not hold, or a larger error, is a divergence of the cell in every report."""
    config = copies(folder, {"other": ("bnpo", "dr_grpo"), "worse": ("1e8", "1e5")})
    result = judge(config, "other:loss", "worse:loss", "--out", "out")
    assert result.returncode == 1
    assert "expectations: 1 other signature, 1 worse\n" in result.stdout
    for outcome, words in (
        ("other", "expected 'computes dr_grpo', found 'computes bnpo'"),
        ("worse", "got worse: error / bound 5e6, expected at most 1e5"),
    ):
        assert f"{outcome.upper()}{' SIGNATURE' * (outcome == 'other')}: {outcome}:loss grpo" in result.stdout
        assert f"\n    {words}\n" in result.stdout
    assert result.stdout.count("cases: DIVERGES\n") == 2
    assert "look closer: lossgate explain out/cases/" in result.stdout
    assert len(list((folder / "out" / "reproducers").iterdir())) == 2
    run = Run.load(folder / "out")
    assert run.facts["exit_code"] == 1
    report = json.loads(json_report.render(cell_table(run.rows), run.facts))
    for cell in report["cells"]:
        assert (cell["verdict"], cell["verdicts"]["known"]) == ("diverges", 0)
        assert cell["verdicts"]["diverges"] > 30
    text = markdown.render(cell_table(run.rows), run.facts)
    assert "| other:loss grpo | OTHER SIGNATURE | 1 cell, " in text
    assert "| lossgate.toml, line 1 |" in text


def test_a_witness_is_not_shrunk_into_what_is_expected(judge: Judge, folder: Path) -> None:
    """Where an entry covers a part of a cell, the small case that is shown is of the rest."""
    region = "row_of_one_token"
    entry = f'[[expect]]\ntarget = "printed:loss"\nregion = "{region}"\nreason = "short completions"\n'
    assert judge(entry, "--out", "out").returncode == 1
    rows = Run.load(folder / "out").rows
    (shrunk,) = rows[rows["phase"] == "shrunk"].to_dict("records")
    assert shrunk["verdict"] == "diverges"
    assert region not in shrunk["regions"]
    assert shrunk["tokens"] <= 8


def test_what_no_longer_holds_is_reported(judge: Judge, folder: Path) -> None:
    """A smaller error, a date that has passed, a reason never given: said, and failing a strict gate only."""
    changes = {
        "shrank": ("1e3", "1e7"),
        "expired": ("range", "expires = 2020-01-31\nrange"),
        "reasonless": ("the page prints another formula", "TODO"),
    }
    config = copies(folder, changes)
    result = judge(config, *(f"{name}:loss" for name in changes))
    assert result.returncode == 0, result.stdout
    said = " ".join(result.stdout.split())
    assert "expectations: 1 shrank, 1 expired, 1 as expected" in said
    assert "error / bound 5e6 in shrank:loss grpo token beta 0 float32, expected at least 1e7" in said
    assert "expired on 2020-01-31: look whether it still holds" in said
    assert "replace its reason, which is a placeholder" in said
    strict = judge(config, *(f"{name}:loss" for name in changes), "--strict-expectations", "--out", "out")
    assert strict.returncode == 1
    assert [record["fails"] for record in Run.load(folder / "out").facts["expectations"]] == [True] * 3


def test_an_entry_that_matched_nothing_is_stale(lossgate: Lossgate, folder: Path) -> None:
    """It is to be removed where its cell was judged, strictly; of others' cells and targets, nothing is said."""
    stale = '[[expect]]\ntarget = "printed:loss"\nloss_type = "bnpo"\nreason = "it was wrong once"\n'
    versioned = '[[expect]]\ntarget = "printed:loss"\nversion = ">=1"\nreason = "no version"\n'
    others = (
        '[[expect]]\ntarget = "trl"\nreason = "x"\n[[expect]]\ntarget = "printed:loss"\nbeta = 1\nreason = "y"\n'
    )
    (folder / "lossgate.toml").write_text(stale + versioned + others)
    result = lossgate("run", "printed:loss", "--loss-type", "bnpo", *ONE_CELL, "--strict-expectations")
    assert result.returncode == 1
    assert "expectations: 2 matched nothing\n" in result.stdout
    assert "matched nothing: remove it (lossgate.toml, line 1)" in result.stdout
    assert "matched nothing: printed:loss says no version, and the entry is for >=1" in result.stdout


RIGHT = """\
def loss(logps, old_logps, ref_logps, advantages, mask, beta, epsilon_low, epsilon_high):
    advantages = advantages[:, None] if advantages.dim() == 1 else advantages
    ratio = (logps - (logps.detach() if old_logps is None else old_logps)).exp()
    clipped = ratio.clamp(1 - epsilon_low, 1 + epsilon_high)
    tokens = -(ratio * advantages).min(clipped * advantages)
    if beta:
        tokens = tokens + beta * ((ref_logps - logps).exp() - (ref_logps - logps) - 1)
    return (tokens.where(mask, 0).sum(1) / mask.sum(1).clamp(min=1)).mean()
"""


def test_a_listed_value_that_matched_nothing_is_told(judge: Judge, folder: Path) -> None:
    """An entry must not go on excusing a cell that has become right: here, the one without a KL term."""
    (folder / "doubled.py").write_text(RIGHT.replace("beta * (", "2 * beta * ("))
    entry = '[[expect]]\ntarget = "doubled:loss"\nbeta = [0, 0.04, 1]\nreason = "its KL term counts twice"\n'
    result = judge(entry, "doubled:loss", "--beta", "0,0.04")
    assert result.returncode == 0, result.stdout
    assert "expectations: 1 shrank" in result.stdout
    assert "nothing diverges with beta 0 any more: take that out" in result.stdout
    assert "beta 1 any more" not in result.stdout


HAND_WRITTEN = """\
# what we know
[[expect]]  # not of this run
target = "other"
reason = "written by hand"

# a table in between
[target.fork]
name = "trl"
"""


def test_what_diverges_is_written_down_for_review(judge: Judge, folder: Path) -> None:
    """Entries for a person to review stand under what is there, and follow what later runs find."""
    config = folder / "lossgate.toml"
    result = judge(HAND_WRITTEN, "--update-expectations", "--out", "out")
    assert result.returncode == 1
    assert "lossgate.toml: 1 generated entry, updated" in result.stderr
    written = config.read_text()
    assert written.startswith(HAND_WRITTEN)
    entry = tomllib.loads(written)["expect"][1]
    witness = entry.pop("witness")
    assert entry == {
        "target": "printed:loss",
        "loss_type": "grpo",
        "level": "token",
        "dtype": "float32",
        "beta": 0,
        "signature": "computes bnpo",
        "range": [1e5, 1e8],
        "reason": "TODO: say why this is expected",
        "generated": True,
    }
    assert (folder / witness).read_bytes() == (folder / "out" / "cases" / Path(witness).name).read_bytes()

    # A reason that a person gave survives, with its comment; new cells join the entry; again, the same bytes.
    reviewed = written.replace('"TODO: say why this is expected"', '"as printed"  # see the page')
    judge(reviewed, "--beta", "0,0.04", "--update-expectations")
    joined = config.read_text()
    (entry,) = tomllib.loads(joined)["expect"][1:]
    assert (entry["beta"], entry["reason"]) == ([0, 0.04], "as printed")
    again = judge(joined, "--beta", "0,0.04", "--update-expectations")
    assert again.returncode == 0, again.stdout
    assert "nothing to change" in again.stderr
    assert config.read_text() == joined

    # Once the function is right, the entry is gone, with its witness.
    (folder / "printed.py").write_text(RIGHT)
    judge(joined, "--beta", "0,0.04", "--update-expectations")
    assert config.read_text() == HAND_WRITTEN
    assert not list((folder / "lossgate-witnesses").iterdir())


def test_entries_go_into_the_section_of_pyproject(lossgate: Lossgate, folder: Path) -> None:
    """A project with its configuration in pyproject.toml keeps it there, and is judged by it."""
    pyproject = folder / "pyproject.toml"
    before = (
        '[project]\nname = "fork"  # ours\n\n[tool.lossgate]\ntargets = ["printed:loss"]\n\n[tool.other]\na = 1\n'
    )
    pyproject.write_text(before)
    assert lossgate("run", "--loss-type", "grpo", *ONE_CELL, "--update-expectations").returncode == 1
    assert pyproject.read_text().startswith(before + "\n[[tool.lossgate.expect]]\n")
    assert not (folder / "lossgate.toml").exists()
