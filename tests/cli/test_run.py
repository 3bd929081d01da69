"""`lossgate run` through the command: verdicts, formats, the run on disk, and how it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from cases.case import Case
from reports.run import Run
from tests.cli.conftest import COMMAND, Lossgate

FEW = ("--dtype", "float32", "--level", "token", "--beta", "0", "--examples", "4", "--quiet")


def test_the_formula_printed_for_grpo_is_not_grpo(lossgate: Lossgate) -> None:
    """The README's first block: one denominator for all tokens diverges from grpo and is named a divergence."""
    result = lossgate("run", "printed:loss", "--loss-type", "grpo", *FEW)
    assert result.returncode == 1, result.stderr
    assert "DIVERGES" in result.stdout
    assert "computes bnpo" in result.stdout


def test_the_formula_printed_for_grpo_is_bnpo(lossgate: Lossgate) -> None:
    """The same file conforms when it is judged as the loss that it is."""
    result = lossgate("run", "printed:loss", "--loss-type", "bnpo", *FEW)
    assert result.returncode == 0, result.stdout
    assert "nothing diverges" in result.stdout


def test_a_failing_cell_has_a_small_witness(lossgate: Lossgate, folder: Path) -> None:
    """The witness of a divergence is shrunk: unequal lengths need two completions and three tokens, no more."""
    lossgate("run", "printed:loss", "--loss-type", "grpo", *FEW, "--out", folder / "out")
    run = Run.load(folder / "out")
    witness = run.rows[run.rows["phase"] == "shrunk"].iloc[0]
    assert witness["verdict"] == "diverges"
    assert (witness["rows"], witness["tokens"]) <= (2, 3)
    assert run.case(witness["case_id"]).batch.rows == witness["rows"]


def test_json_is_one_document_on_standard_output(lossgate: Lossgate) -> None:
    """With --format json nothing else is printed there, and the cells are complete."""
    result = lossgate("run", "printed:loss", "--loss-type", "bnpo", *FEW, "--format", "json")
    report = json.loads(result.stdout)
    assert report["format"] == "lossgate-report/1"
    assert report["complete"] is True
    assert [cell["loss_type"] for cell in report["cells"]] == ["bnpo"]
    assert report["cells"][0]["cases"] >= 64


def test_markdown_holds_the_table(lossgate: Lossgate) -> None:
    """--format markdown prints the cells as a GitHub table."""
    result = lossgate("run", "printed:loss", "--loss-type", "bnpo", *FEW, "--format", "markdown")
    assert "| printed:loss | logps | bnpo | token | 0 | float32 |" in result.stdout.replace("\\_", "_")


def test_every_requested_cell_is_judged(lossgate: Lossgate, folder: Path) -> None:
    """Levels, betas and dtypes multiply, and each cell gets at least the examples asked for."""
    arguments = ("--level", "token,sequence", "--beta", "0,0.04", "--dtype", "float64,bfloat16")
    lossgate("run", "printed:loss", "--loss-type", "bnpo", *arguments, "--examples", "70", "-q", "--out", "out")
    rows = Run.load(folder / "out").rows
    cells = rows.groupby(["level", "beta", "dtype"])["case_id"].nunique()
    assert len(cells) == 8
    assert cells.min() >= 70


def test_the_same_seed_gives_the_same_rows(lossgate: Lossgate, folder: Path) -> None:
    """Two runs with one seed agree in every row, whatever else differs; another seed has other cases."""
    for name, seed in (("a", "7"), ("b", "7"), ("c", "8")):
        lossgate("run", "printed:loss", "--loss-type", "grpo", *FEW, "--seed", seed, "--out", name)
    a, b, c = (Run.load(folder / name) for name in "abc")
    assert a.rows.equals(b.rows)
    assert a.facts["case_set"] == b.facts["case_set"]
    assert not a.rows["case_id"].equals(c.rows["case_id"])


def test_the_run_lies_on_disk_as_documented(lossgate: Lossgate, folder: Path) -> None:
    """run.json, rows, timings and every witness are there, and the printed path leads to them."""
    result = lossgate("run", "printed:loss", "--loss-type", "bnpo", *FEW)
    path = folder / result.stdout.strip().splitlines()[-1].removeprefix("run: ")
    run = Run.load(path)
    assert run.complete
    assert run.facts["exit_code"] == 0
    assert set(run.facts["targets"]) == {"printed:loss"}
    assert len(run.timings()) == len(run.rows)
    for file in (path / "cases").iterdir():
        assert Case.from_json(file.read_text()).id == file.stem


def test_interrupted_keeps_what_was_finished(folder: Path) -> None:
    """Ctrl-C ends with 130, leaves no process behind, and the run reads as incomplete, never as a pass."""
    out = folder / "out"
    process = subprocess.Popen(
        [COMMAND, "run", "printed:loss", "--loss-type", "bnpo", "--examples", "2000", "--out", out],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # A shell may have started the tests with SIGINT ignored, which children inherit.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    deadline = time.monotonic() + 60
    while not list(out.glob("rows/part-*.parquet")):
        assert time.monotonic() < deadline, "nothing was written"
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 130, stderr
    assert stdout.startswith("INCOMPLETE")
    run = Run.load(out)
    assert not run.complete
    assert len(run.rows) > 0
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)


def test_nothing_compared_is_not_a_pass(lossgate: Lossgate, folder: Path) -> None:
    """A function that takes no loss with a lower bound supports nothing of dr_grpo: exit 4, not 0."""
    (folder / "narrow.py").write_text("def loss(logps, advantages, mask):\n    return (logps * mask).sum()\n")
    result = lossgate("run", "narrow:loss", "--loss-type", "dr_grpo", *FEW)
    assert result.returncode == 4, result.stdout
    assert "nothing was judged" in result.stdout
    assert "not supported: loss type dr_grpo" in result.stdout


def test_a_region_never_met_is_not_a_pass(lossgate: Lossgate, folder: Path) -> None:
    """A function without old log-probabilities is right on-policy, but its clip was never seen: exit 4."""
    (folder / "onpolicy.py").write_text(
        "def loss(logps, advantages, mask):\n"
        "    advantages = advantages[:, None] if advantages.dim() == 1 else advantages\n"
        "    ratio = (logps - logps.detach()).exp()\n"
        "    return -(ratio * advantages * mask).sum() / mask.sum().clamp(min=1)\n"
    )
    result = lossgate("run", "onpolicy:loss", "--loss-type", "bnpo", *FEW)
    assert result.returncode == 4, result.stdout
    assert "never met clipped_high" in result.stdout


def test_two_targets_in_one_run(lossgate: Lossgate, folder: Path) -> None:
    """Targets are judged on the same cases, and one that fails does not hide the other."""
    text = (folder / "printed.py").read_text()
    (folder / "mutant.py").write_text(text.replace("torch.min(", "torch.max("))
    result = lossgate("run", "printed:loss", "mutant:loss", "--loss-type", "bnpo", *FEW, "--out", "out")
    assert result.returncode == 1
    assert "printed:loss: 1 cell" in result.stdout
    assert "mutant:loss: 1 cell" in result.stdout
    drawn = Run.load(folder / "out").rows.query("phase != 'shrunk'")
    cases = drawn.groupby("target")["case_id"].apply(list)
    assert cases["printed:loss"] == cases["mutant:loss"]
