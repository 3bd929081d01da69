"""`lossgate report`, and the files and annotations of `lossgate run`: a run rendered for other programs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Final
from xml.etree import ElementTree as ET

import pytest

from reports.formats import ReportFormat
from tests.cli.conftest import COMMAND, EXAMPLE, Lossgate

FEW: Final = (
    *("--loss-type", "grpo", "--dtype", "float32", "--level", "token", "--beta", "0"),
    *("--examples", "1", "--quiet"),
)
INCOMPLETE: Final = "the run did not come to its end"


@pytest.fixture(scope="module")
def fork(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout with a loss that is wrong in it, judged from a folder below, with all that is written."""
    root = tmp_path_factory.mktemp("fork")
    (root / ".git").mkdir()
    (root / "deep" / "pkg").mkdir(parents=True)
    (root / "deep" / "pkg" / "printed.py").write_text(EXAMPLE.read_text())
    files = ("--junit", "made/for it/junit.xml", "--sarif", "lossgate.sarif", "--github")
    result = subprocess.run(
        [COMMAND, "run", "pkg.printed:loss", "fault:none", "fault:no_clip", *FEW, "--out", "out", *files],
        cwd=root / "deep",
        env={**os.environ, "GITHUB_STEP_SUMMARY": str(root / "summary.md"), "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert result.returncode == 1, result.stderr
    (root / "printed").write_text(result.stdout)
    return root


def report(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """`lossgate report out` in a folder, away from any real job."""
    kept = {name: value for name, value in os.environ.items() if name != "GITHUB_STEP_SUMMARY"}
    return subprocess.run(
        [COMMAND, "report", "out", *arguments],
        cwd=folder,
        env={**kept, **environment, "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def outcomes(path: Path) -> dict[str, str]:
    """How the tests of a JUnit file ended, by target and name."""
    return {
        f"{case.attrib['classname']} {case.attrib['name']}": next((one.tag for one in case), "passed")
        for case in ET.parse(path).getroot().iter("testcase")
    }


def first_line(path: Path) -> int:
    """The line that the function `loss` of a file begins in."""
    return next(n for n, line in enumerate(path.read_text().splitlines(), 1) if line.startswith("def loss("))


def test_a_test_per_cell(fork: Path) -> None:
    """Folders on the way to the file are made; what diverges fails, the correct implementation passes."""
    cell = "grpo token beta 0 float32"
    assert outcomes(fork / "deep" / "made" / "for it" / "junit.xml") == {
        f"pkg.printed:loss {cell}": "failure",
        f"fault:none {cell}": "passed",
        f"fault:no_clip {cell}": "failure",
    }


def test_a_result_lies_at_the_loss_in_the_checkout(fork: Path) -> None:
    """Relative to the checkout's root, wherever lossgate ran; a target of its own has a logical place only."""
    (run,) = json.loads((fork / "deep" / "lossgate.sarif").read_text())["runs"]
    assert run["originalUriBaseIds"]["SRCROOT"]["uri"] == f"{fork.as_uri()}/"
    printed, no_clip = (result["locations"][0] for result in run["results"])
    place = printed["physicalLocation"]
    assert place["artifactLocation"] == {"uri": "deep/pkg/printed.py", "uriBaseId": "SRCROOT"}
    assert place["region"]["startLine"] == first_line(fork / "deep" / "pkg" / "printed.py")
    assert no_clip == {"logicalLocations": [{"fullyQualifiedName": "fault:no_clip"}]}


def test_annotations_come_after_the_table_and_the_summary_is_added(fork: Path) -> None:
    """One annotation a finding, at the loss; the summary goes into the job's file."""
    lines = (fork / "printed").read_text().splitlines()
    printed, no_clip = (line for line in lines if line.startswith("::error"))
    line = first_line(fork / "deep" / "pkg" / "printed.py")
    assert printed.startswith(f"::error file=deep/pkg/printed.py,line={line},title=")
    assert "computes bnpo" in printed
    assert "file=" not in no_clip
    assert lines.index("run: out") < lines.index(printed)
    assert "computes bnpo" in (fork / "summary.md").read_text()


@pytest.mark.parametrize("name", ReportFormat)
def test_a_run_is_rendered_again(name: ReportFormat, fork: Path, tmp_path: Path) -> None:
    """Every format, on standard output and into a file; what the run wrote is the same."""
    result = report(fork / "deep", "--format", name)
    assert result.returncode == 0, result.stderr
    assert "pkg.printed" in result.stdout
    written = report(fork / "deep", "--format", name, "--output", str(tmp_path / "file"))
    assert (written.returncode, written.stdout) == (0, "")
    text = (tmp_path / "file").read_text()
    if name is not ReportFormat.TABLE:
        assert result.stdout == text
    made = {"junit": "made/for it/junit.xml", "sarif": "lossgate.sarif"}.get(name)
    assert made is None or (fork / "deep" / made).read_text() == text


def test_github_adds_to_the_summary(fork: Path, tmp_path: Path) -> None:
    """What other steps wrote stays."""
    summary = tmp_path / "summary.md"
    summary.write_text("before\n")
    result = report(fork / "deep", "--format", "github", GITHUB_STEP_SUMMARY=str(summary))
    assert result.stdout.count("::error") == 2
    assert summary.read_text().startswith("before\n# lossgate\n")


def test_json_stays_one_document_beside_annotations(lossgate: Lossgate) -> None:
    """They go to standard error, which the runner reads as well; nothing is written where there is no job."""
    result = lossgate("run", "printed:loss", *FEW, "--format", "json", "--github", GITHUB_STEP_SUMMARY="")
    assert json.loads(result.stdout)["complete"] is True
    assert "::error file=printed.py,line=" in result.stderr


@pytest.mark.parametrize("option", ["--junit", "--sarif"])
@pytest.mark.parametrize(
    ("path", "message"),
    [("taken", "it is a folder"), ("file.txt/below.xml", "Not a directory"), ("/proc/below.xml", "cannot write")],
)
def test_a_path_that_cannot_be_written_is_found_first(
    option: str, path: str, message: str, lossgate: Lossgate, folder: Path
) -> None:
    """One sentence, exit 2, and no run was begun."""
    (folder / "taken").mkdir()
    (folder / "file.txt").write_text("kept")
    result = lossgate("run", "printed:loss", *FEW, option, path)
    assert result.returncode == 2
    assert result.stderr.startswith(f"lossgate: cannot write {path}: ")
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert sorted(one.name for one in folder.iterdir()) == ["file.txt", "printed.py", "taken"]


def test_two_reports_cannot_be_one_file(lossgate: Lossgate) -> None:
    """The later would replace the earlier."""
    result = lossgate("run", "printed:loss", *FEW, "--junit", "x.xml", "--sarif", "./x.xml")
    assert result.returncode == 2
    assert "name one file" in result.stderr


def test_a_device_is_written_into(lossgate: Lossgate) -> None:
    """It is not replaced by a file."""
    result = lossgate("run", "printed:loss", *FEW, "--junit", "/dev/stderr", "--sarif", "/dev/null")
    assert result.returncode == 1
    assert result.stderr.rstrip().endswith("</testsuites>")
    assert Path("/dev/null").is_char_device()


def test_a_target_that_does_not_start_leaves_no_old_pass(lossgate: Lossgate, folder: Path) -> None:
    """The file of an earlier run is replaced by one that says that there was no run."""
    (folder / "junit.xml").write_text("<testsuites/>")
    result = lossgate("run", "no_such_module:loss", *FEW, "--junit", "junit.xml")
    assert result.returncode == 2, result.stderr
    assert set(outcomes(folder / "junit.xml").values()) == {"error"}
    assert INCOMPLETE in (folder / "junit.xml").read_text()


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_run_that_was_cut_short_is_never_a_pass(how: signal.Signals, folder: Path) -> None:
    """Killed or interrupted, its files have been those of an incomplete run from the beginning."""
    out = folder / "out"
    arguments = (
        "--examples",
        "400",
        "--loss-type",
        "bnpo",
        "--out",
        out,
        "--junit",
        "j.xml",
        "--sarif",
        "s.sarif",
    )
    process = subprocess.Popen(
        [COMMAND, "run", "printed:loss", *arguments],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    deadline = time.monotonic() + 60
    while not list(out.glob("rows/part-*.parquet")):
        assert time.monotonic() < deadline, "nothing was written"
        time.sleep(0.05)
    os.killpg(process.pid, how)
    process.wait(60)
    for junit, sarif in (
        ((folder / "j.xml").read_text(), (folder / "s.sarif").read_text()),
        (report(folder, "--format", "junit").stdout, report(folder, "--format", "sarif").stdout),
    ):
        cases = list(ET.fromstring(junit).iter("testcase"))
        assert all(len(case) for case in cases), "a test passes"
        assert INCOMPLETE in junit
        (run,) = json.loads(sarif)["runs"]
        assert run["invocations"][0]["executionSuccessful"] is False


def test_report_takes_runs_alone(lossgate: Lossgate, folder: Path) -> None:
    """One sentence for a folder that is none, and exit 2; a format that there is not is named."""
    result = lossgate("report", folder)
    assert result.returncode == 2
    assert result.stderr.startswith(f"lossgate: {folder} is not a run")
    assert lossgate("report", folder, "--format", "xml").returncode == 2
