"""`lossgate replay`: fixed, still failing, or no case at all."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from cases.case import Case
from reports.run import Run
from tests.cli.conftest import COMMAND, EXAMPLE, Lossgate

FEW = ("--loss-type", "grpo", "--dtype", "float32", "--level", "token", "--beta", "0", "--examples", "2", "-q")


@pytest.fixture(scope="module")
def failed_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of the printed formula as grpo."""
    folder = tmp_path_factory.mktemp("failed")
    shutil.copy(EXAMPLE, folder / "printed.py")
    subprocess.run(
        [COMMAND, "run", "printed:loss", *FEW, "--out", "run"], cwd=folder, check=False, capture_output=True
    )
    return folder / "run"


@pytest.fixture
def witness(failed_run: Path, folder: Path) -> Path:
    """The shrunk case of a run that failed, in a copy of that run."""
    copy = shutil.copytree(failed_run, folder / "lossgate-runs" / "one")
    rows = Run.load(copy).rows
    case_id = rows[rows["phase"] == "shrunk"]["case_id"].iloc[0]
    return copy / "cases" / f"{case_id}.json"


def test_a_failing_case_still_fails(lossgate: Lossgate, witness: Path) -> None:
    """By path, the target is the one whose run the case lies in."""
    result = lossgate("replay", witness)
    assert result.returncode == 1
    assert "diverges" in result.stdout
    assert "error / bound" in result.stdout


def test_a_case_is_found_by_its_id(lossgate: Lossgate, witness: Path) -> None:
    """An id is looked up in the runs below the current folder."""
    result = lossgate("replay", witness.stem, "--format", "json")
    assert result.returncode == 1
    assert json.loads(result.stdout)["case"] == witness.stem


def test_a_fixed_target_conforms(lossgate: Lossgate, witness: Path, folder: Path) -> None:
    """After the fix, the same case says so."""
    text = (folder / "printed.py").read_text()
    wrong = "(token_losses * mask).sum() / mask.sum().clamp(min=1)"
    right = "((token_losses * mask).sum(1) / mask.sum(1).clamp(min=1)).mean()"
    assert wrong in text
    (folder / "printed.py").write_text(text.replace(wrong, right))
    result = lossgate("replay", witness, "printed:loss")
    assert result.returncode == 0, result.stdout
    assert "conforms" in result.stdout


def test_an_error_is_told_apart(lossgate: Lossgate, witness: Path, folder: Path) -> None:
    """A target that raises is no divergence."""
    (folder / "raising.py").write_text(
        "def loss(logps, advantages, mask, old_logps, epsilon_low, epsilon_high):\n    1 / 0\n"
    )
    result = lossgate("replay", witness, "raising:loss")
    assert result.returncode == 1
    assert "error" in result.stdout
    assert "ZeroDivisionError" in result.stdout


BAD_FILES = {
    "empty": (lambda _: "", "is empty"),
    "cut short": (lambda text: text[: len(text) // 2], "was cut short"),
    "edited by hand": (lambda text: text.replace('"epsilon_low": 0.', '"epsilon_low": 0.3'), "it was edited"),
    "foreign": (lambda _: '{"hello": 1}', "is no case of this format"),
    "not JSON": (lambda _: "%PDF-1.7", "is not JSON"),
}


@pytest.mark.parametrize("kind", BAD_FILES)
def test_a_file_that_is_no_case(kind: str, lossgate: Lossgate, witness: Path, folder: Path) -> None:
    """Each kind of bad file is named in one sentence, with exit 2."""
    spoil, words = BAD_FILES[kind]
    bad = folder / "bad.json"
    bad.write_text(spoil(witness.read_text()))
    result = lossgate("replay", bad, "printed:loss")
    assert result.returncode == 2
    assert words in result.stderr
    assert "Traceback" not in result.stderr


def test_a_binary_file_is_no_case(lossgate: Lossgate, folder: Path) -> None:
    """Bytes that are no text are refused as the rest."""
    (folder / "bad.json").write_bytes(bytes(range(256)))
    result = lossgate("replay", "bad.json", "printed:loss")
    assert result.returncode == 2
    assert "cannot read bad.json" in result.stderr


def test_a_case_outside_a_run_needs_a_target(lossgate: Lossgate, witness: Path, folder: Path) -> None:
    """A case that was pasted somewhere is judged once a target is named."""
    alone = folder / "alone.json"
    alone.write_text(Case.from_json(witness.read_text()).to_json())
    result = lossgate("replay", alone)
    assert result.returncode == 2
    assert "name it after the case" in result.stderr
    assert lossgate("replay", alone, "printed:loss").returncode == 1
