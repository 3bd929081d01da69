"""`lossgate matrix`: real releases side by side, resumed where it was cut short, around what cannot be judged."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from harness.releases.cache import Cache
from harness.releases.overlay import overlay_of
from reports.run import Run
from tests.cli.conftest import COMMAND, Lossgate

ASKED = ("--loss-type", "dapo,luspo", "--level", "token", "--beta", "0", "--examples", "1", "--offline", "-q")
TRL = ("matrix", "trl", "1.9.0..1.14.2", *ASKED, "-j", "2")


def lines_of(text: str) -> list[str]:
    """Lines without what fills them up."""
    return [line.rstrip() for line in text.splitlines()]


def test_releases_side_by_side(lossgate: Lossgate, folder: Path) -> None:
    """Columns in order, red where TRL was wrong only, a run a release, and the same again from the file."""
    result = lossgate(*TRL, "--out", "a")
    assert result.returncode == 0, result.stderr
    lines = lines_of(result.stdout)
    assert lines[:2] == ["trl 1.9.0..1.14.2", "loss_type  level  beta  1.9.0        1.9.2        1.14.2"]
    signs = [line.split()[3:] for line in lines[2:4]]
    assert [[cell for cell in row if cell in ("DIV", "(ok)", "ok")] for row in signs] == [
        ["DIV", "(ok)", "(ok)"],
        ["DIV", "DIV", "(ok)"],
    ]
    assert "    1.9.0: dapo" in lines
    assert "    1.9.0-1.9.2: luspo" in lines
    assert lines[-1] == "matrix: a"
    for version in ("1.9.0", "1.9.2", "1.14.2"):
        assert Run.load(folder / "a" / f"trl-{version}").complete

    again = lossgate("matrix", "--resume", "a", "-q")
    assert again.stdout == result.stdout
    content = json.loads(lossgate("matrix", "--resume", "a", "-q", "--format", "json").stdout)
    assert content["complete"]
    assert [release["name"] for release in content["releases"]] == ["1.9.0", "1.9.2", "1.14.2"]
    markdown = lossgate("matrix", "--resume", "a", "-q", "--format", "markdown").stdout
    assert "| loss\\_type | level | beta | 1.9.0 | 1.9.2 | 1.14.2 |" in markdown


def test_killed_and_resumed(lossgate: Lossgate, folder: Path) -> None:
    """SIGKILL once the first release is judged: nothing is left running, and that one is not judged again."""
    process = subprocess.Popen(
        [COMMAND, *TRL[:-1], "1", "--out", "cut"], cwd=folder, stderr=subprocess.DEVNULL, start_new_session=True
    )
    file = folder / "cut" / "matrix.json"
    while process.poll() is None and not (file.exists() and len(json.loads(file.read_text())["releases"]) > 0):
        time.sleep(0.01)
    process.kill()
    process.wait()
    deadline = time.monotonic() + 20
    while _is_alive(process.pid):
        assert time.monotonic() < deadline, "processes of the killed matrix are still there"
        time.sleep(0.1)
    first = folder / "cut" / "trl-1.9.0" / "run.json"
    written = first.stat().st_mtime_ns
    assert len(json.loads(file.read_text())["releases"]) < 3
    for option in ("--dtype", "float64"), ("--strict",), ("--out", "other"):
        refused = lossgate("matrix", "--resume", "cut", *option)
        assert refused.returncode == 2, refused.stderr
        assert "leave out others" in refused.stderr
    result = lossgate("matrix", "--resume", "cut", "-q", "-j", "2", "--offline")
    assert result.returncode == 0, result.stderr
    assert json.loads(file.read_text())["offline"]
    assert first.stat().st_mtime_ns == written
    assert "INCOMPLETE" not in result.stdout
    assert [one["name"] for one in json.loads(file.read_text())["releases"]] == ["1.9.0", "1.9.2", "1.14.2"]


def _is_alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_release_that_does_not_start(lossgate: Lossgate, folder: Path) -> None:
    """It is a column that says so, and the others are judged; alone, it is exit code 3."""
    sound = overlay_of("liger==0.8.0", sys.executable, offline=True).folders[0]
    cache = Cache(folder / "cache")
    tag = sound.parent.name
    shutil.copytree(sound, cache.entry("liger-kernel", "0.8.0", tag).folder)
    broken = cache.entry("liger-kernel", "0.8.1", tag)
    shutil.copytree(sound, folder / "broken", ignore=shutil.ignore_patterns("grpo_loss.py", "*.pyc", "lossgate.*"))
    _sealed(folder / "broken", broken.folder)
    asked = ("--loss-type", "grpo", *ASKED[2:], "--out")
    environment = {"LOSSGATE_CACHE": str(cache.root)}
    result = lossgate("matrix", "liger", "0.8.0..0.8.1", *asked, "a", **environment)
    assert result.returncode == 0, result.stderr
    assert "0.8.1 not judged: liger_kernel 0.8.0 has another interface" in result.stdout
    assert "judged: 1 of 2 releases in the cache" in result.stdout
    assert "liger 0.8.0..0.8.1: 1 cell of 1 release: none fails" in result.stdout
    alone = lossgate("matrix", "liger", "0.8.1..", *asked, "b", **environment)
    assert alone.returncode == 3, alone.stdout


def _sealed(source: Path, place: Path) -> None:
    from harness.releases.manifest import seal

    source.rename(place)
    seal(place)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("trll", "1.0.0.."), "did you mean 'trl'?"),
        (("liger-kernel", "0.8.0.."), "did you mean 'liger==0.8.0'?"),
        (("trl", "1.9.0"), "takes A..B, both in it, or A.. for all from A on"),
        (("trl", "1.9.2..1.9.0"), "did you mean 1.9.0..1.9.2?"),
        (("trl", "0.1.0..1.9.0"), "the first release that can be judged is 0.14.0"),
        (("trl", "1.9.0..", "--loss-type", "grop"), "did you mean 'grpo'?"),
        (("trl",), "takes a library and a range"),
        (("--resume", "."), "is no matrix: there is no matrix.json in it"),
        (("trl", "1.9.0..", "--resume", "."), "leave out others"),
        (("trl", "1.9.0..", "--out", "."), "is not empty"),
    ],
)
def test_wrong_usage(arguments: tuple[str, ...], sentence: str, lossgate: Lossgate, folder: Path) -> None:
    """One message that says what is taken, exit code 2, and no folder left."""
    result = lossgate("matrix", *arguments, "--offline")
    assert result.returncode == 2, result.stdout
    assert sentence in result.stderr
    assert "Traceback" not in result.stderr
    assert not (folder / "lossgate-runs").exists()
