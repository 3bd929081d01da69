"""Releases by name, beside what is installed: real ones, from the cache that `make test` fills."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from harness.releases.overlay import overlay_of
from reports.run import Run
from tests.cli.conftest import COMMAND, Lossgate

QUICK = ("--dtype", "float32", "--level", "token", "--beta", "0", "--examples", "8", "--offline", "-q")
LIBRARIES = ("liger==0.8.0", "verl==0.6.0", "openrlhf==0.10.2", "unsloth==2026.8.13")


def verdicts(run: Run) -> dict[str, str]:
    """The worst verdict of each target, of those that can be in these runs."""
    return {
        str(target): "diverges" if "diverges" in set(rows) else "conforms"
        for target, rows in run.rows.groupby("target")["verdict"]
    }


@pytest.mark.parametrize("release", LIBRARIES)
def test_a_release_of_every_library(release: str, lossgate: Lossgate) -> None:
    """One word on the command line: the release loads over this interpreter, and its adapter is sound."""
    result = lossgate("smoke", release, "--offline")
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.splitlines()[0] == release.replace("==", " ")


def test_releases_beside_what_is_installed(lossgate: Lossgate, folder: Path) -> None:
    """Three versions in one run, in two judging processes: each row is of the version that its label says."""
    names = ("trl", "trl==1.9.0", "trl==0.17.0")
    result = lossgate("run", *names, "--loss-type", "grpo,luspo", *QUICK, "-j2", "--out", "a")
    assert result.returncode == 1, result.stderr
    run = Run.load(folder / "a")
    assert verdicts(run) == {"trl 1.16.0": "conforms", "trl 1.9.0": "diverges", "trl 0.17.0": "conforms"}
    assert set(run.rows[run.rows["verdict"] == "diverges"]["loss_type"]) == {"luspo"}
    targets = run.facts["targets"]
    laid = "laid over the interpreter, from the cache: trl 0.17.0, transformers 4.57.6, huggingface_hub 0.36.2"
    assert any(line.startswith(laid) for line in targets["trl 0.17.0"]["replaced"])
    assert targets["trl 0.17.0"]["versions"]["transformers"] == "4.57.6"
    assert not any("laid over" in line for line in targets["trl 1.16.0"]["replaced"])
    assert targets["trl 1.16.0"]["versions"]["transformers"].startswith("5.")

    witness = run.rows[run.rows["verdict"] == "diverges"]["case_id"].iloc[-1]
    case = folder / "a" / "cases" / f"{witness}.json"
    again = lossgate("replay", case, "trl==1.9.0", "--offline")
    assert (again.returncode, again.stdout.split()[0:2]) == (1, ["trl", "1.9.0"])
    mended = lossgate("replay", case, "trl", "--offline")
    assert (mended.returncode, mended.stdout.split()[0:2]) == (0, ["trl", "1.16.0"])


def test_a_release_beside_the_same_version(lossgate: Lossgate, folder: Path) -> None:
    """Both have the same label of their own, and are still told apart: what is installed may be a fork."""
    release = overlay_of("liger==0.8.0", sys.executable, offline=True).folders[0]
    names = ("liger", "liger==0.8.0")
    result = lossgate("run", *names, "--loss-type", "grpo", *QUICK, "--out", "a", PYTHONPATH=str(release))
    assert result.returncode == 0, result.stderr
    targets = Run.load(folder / "a").facts["targets"]
    assert list(targets) == ["liger 0.8.0 (liger)", "liger 0.8.0 (liger==0.8.0)"]


def test_a_run_of_a_release_is_resumed(lossgate: Lossgate, folder: Path) -> None:
    """A run that was killed knows which release it was of, and ends with the rows of one that was not."""
    arguments = ("run", "liger==0.8.0", "--dtype", "float32", "--beta", "0", "--examples", "8", "--offline", "-q")
    assert lossgate(*arguments, "--out", "whole").returncode == 1
    whole, cut = Run.load(folder / "whole"), folder / "cut"
    process = subprocess.Popen([COMMAND, *arguments, "--out", cut], stdout=subprocess.DEVNULL)
    while not list(cut.glob("rows/*.parquet")) and process.poll() is None:
        time.sleep(0.01)
    process.kill()
    process.wait()
    assert not Run.load(cut).complete
    result = lossgate("run", "--resume", "cut", "-q")
    assert result.returncode == 1, result.stderr
    assert Run.load(cut).rows.equals(whole.rows)


def test_another_version_that_comes_first_is_refused(lossgate: Lossgate, folder: Path) -> None:
    """An environment may put its own before PYTHONPATH: then what would be judged is not the release."""
    other = overlay_of("liger==0.8.5", sys.executable, offline=True).folders[0]
    (folder / "early").mkdir()
    (folder / "early" / "sitecustomize.py").write_text(f"import sys\nsys.path.insert(0, {str(other)!r})\n")
    names = ("liger==0.8.0", "--loss-type", "grpo")
    result = lossgate("run", *names, *QUICK, "--out", "a", PYTHONPATH=str(folder / "early"))
    assert result.returncode == 3
    assert "liger-kernel 0.8.0 was asked for, and its interpreter loads liger 0.8.5 from" in result.stderr
    assert not (folder / "a").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (("run", "trl=="), 2, "trl== is no exact release"),
        (("run", "trl", "nosuch==1.0"), 2, "releases can be fetched of trl, liger, verl, openrlhf, unsloth"),
        (("run", "trl>=1.0"), 2, "name one, such as trl==0.14.0"),
        (("smoke", "trl==0.13.0"), 2, "the first release that can be judged is 0.14.0"),
        (("fetch", "trl==1.9.0", "trl"), 2, "'trl' is no release"),
        (("fetch",), 2, "Missing argument"),
        (("run", "trl", "trl==1.9.0", "--offline"), 3, "lossgate fetch trl==1.9.0"),
        (("fetch", "trl==1.9.0", "--offline"), 3, "trl 1.9.0 is not in the cache"),
    ],
)
def test_a_release_that_cannot_be_had(
    arguments: tuple[str, ...], code: int, sentence: str, lossgate: Lossgate, folder: Path
) -> None:
    """One message, the exit code of its kind, and no folder of a run that judged nothing; the cache is empty."""
    result = lossgate(*arguments, LOSSGATE_CACHE=str(folder / "empty"))
    assert result.returncode == code
    assert sentence in result.stderr
    assert "Traceback" not in result.stderr
    assert result.stdout == ""
    assert not list(folder.glob("lossgate-runs/*"))


def test_fetch_says_what_lies_where(lossgate: Lossgate) -> None:
    """The release and what comes with it, as lines and as JSON; the first folder is the release's."""
    lines = lossgate("fetch", "trl==1.9.0", "--offline").stdout.splitlines()
    assert lines[0] == "trl==1.9.0"
    assert [line.split()[0] for line in lines[1:]][:2] == ["trl", "requests"]
    (entry,) = json.loads(lossgate("fetch", "trl==1.9.0", "--offline", "--format", "json").stdout)["releases"]
    assert entry["name"] == "trl==1.9.0"
    assert (Path(entry["path"][0]) / "trl" / "__init__.py").exists()
    assert [line.split()[-1] for line in lines[1:]] == entry["path"]


def test_targets_lists_libraries_and_every_kind_of_name(lossgate: Lossgate) -> None:
    """What is not installed is listed with the reason and what to do; names of other kinds with what they are."""
    listed = json.loads(lossgate("targets", "--format", "json").stdout)["targets"]
    entries = {entry["name"]: entry for entry in listed}
    for name in ("trl", "liger", "verl", "openrlhf", "unsloth"):
        assert entries[name]["checked"]
    assert entries["trl"]["loads"]
    assert not entries["verl"]["loads"]
    assert "verl is not installed" in entries["verl"]["why_not"]
    assert entries["verl"]["hint"].endswith("-m pip install verl")
    for name in ("LIBRARY==VERSION", "module:Class", "module:function", "./lib.so#ns::op", "fault:NAME"):
        assert entries[name]["checked"] is False
    assert next(iter(entries)) == "trl"
