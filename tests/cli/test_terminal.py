"""What the verbs do on a real terminal, and what they leave out where there is none."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from reports.matrix_file import save
from tests.cli.conftest import COMMAND, Lossgate
from tests.reports.test_matrix import MATRIX

CELL: Final = ("--loss-type", "grpo", "--level", "token", "--dtype", "float32")
RUN: Final = ("run", "fault:no_clip", *CELL, "--beta", "0", "--examples", "1")
LONG: Final = {
    "run": RUN,
    "compare": ("compare", "fault:none", "fault:no_clip", *CELL, "--beta", "0", "--examples", "1"),
    "faults": ("faults", "--only", "no_clip,luspo_padding", "--dtype", "float32", "--examples", "1"),
    "identify": ("identify", "fault:no_clip", "--loss-type", "grpo"),
    "bisect": ("bisect", "kept:loss", "first..last", "--git", "repository", "--cell", "grpo", "--examples", "1"),
    "matrix": ("matrix", "--resume", "matrix"),
}
"""Verbs that take long, asked for little."""

COLOUR: Final = re.compile(r"\x1b\[(?:\d+;)*(?:3[0-7]|9[0-7])m")
CONTROL: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@dataclass(frozen=True)
class Shown:
    """What a terminal was sent: all of it, and the lines that stay, which end in a new line."""

    returncode: int
    raw: str

    @property
    def moving(self) -> list[str]:
        """Every state of every line, without control codes."""
        plain = CONTROL.sub("", self.raw)
        return [line for line in re.split(r"[\r\n]+", plain) if line.strip()]


Terminal = Callable[..., Shown]


@pytest.fixture
def terminal(folder: Path) -> Terminal:
    """`terminal(*arguments, columns=100)`: the command on a terminal of that width."""

    def run(*arguments: str, columns: int = 100, **environment: str) -> Shown:
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        usual = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "NO_COLOR", "CI")}
        process = subprocess.Popen(
            [COMMAND, *arguments],
            cwd=folder,
            env={**usual, "TERM": "xterm-256color", **environment},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        sent = bytearray()
        while True:
            try:
                sent += os.read(ours, 65536)
            except OSError:  # how Linux says that the other end is closed
                break
        os.close(ours)
        return Shown(process.wait(timeout=60), sent.decode())

    return run


@pytest.fixture(autouse=True)
def _what_is_asked_about(folder: Path) -> None:
    save(MATRIX, folder / "matrix")
    repository = folder / "repository"
    repository.mkdir()

    def git(*arguments: str) -> None:
        who = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        subprocess.run(["git", *who, *arguments], cwd=repository, check=True, capture_output=True)

    git("init", "-q")
    (repository / "kept.py").write_text((folder / "printed.py").read_text())
    git("add", ".")
    for tag in ("first", "last"):
        git("commit", "-q", "--allow-empty", "-m", tag)
        git("tag", tag)


@pytest.mark.parametrize("verb", LONG)
def test_a_terminal_is_left_as_it_was(terminal: Terminal, verb: str) -> None:
    """Progress moves within one line of 100 columns, which is gone at the end; the cursor is back."""
    shown = terminal(*LONG[verb])
    assert "Traceback" not in shown.raw
    assert max(map(len, shown.moving)) <= 100
    assert shown.raw.count("\x1b[?25l") == shown.raw.count("\x1b[?25h") == 1
    assert COLOUR.search(shown.raw)


@pytest.mark.parametrize("verb", LONG)
def test_quiet_in_a_pipe_is_the_result_alone(lossgate: Lossgate, verb: str) -> None:
    """Nothing that steers a terminal, no line beyond 100 columns, and no progress."""
    piped = lossgate(*LONG[verb], "--quiet", NO_COLOR="")
    assert "Traceback" not in piped.stderr
    assert "\x1b" not in piped.stdout + piped.stderr
    assert "\r" not in piped.stdout + piped.stderr
    assert re.sub(r"^(run|matrix): .*\n", "", piped.stderr) == ""
    assert 0 < max(map(len, piped.stdout.splitlines())) <= 100


@pytest.mark.parametrize("verb", ["run", "faults", "identify"])
def test_quiet_on_a_terminal_moves_nothing(terminal: Terminal, verb: str) -> None:
    """The table, and no progress before it."""
    shown = terminal(*LONG[verb], "--quiet")
    assert "\x1b[?25l" not in shown.raw
    assert "no_clip" in shown.raw


def test_the_bar_counts(terminal: Terminal) -> None:
    """How many of how many cases, how fast, until when; how many fail grows to the number in the table."""
    shown = terminal(*RUN[:-1], "800")
    counts = [int(number) for line in shown.moving for number in re.findall(r"(\d+) failing", line)]
    assert counts == sorted(counts)
    (failing,) = re.findall(r"float32 +(\d+)/\d+ +DIVERGES", shown.raw.replace("\x1b[1;31m", ""))
    assert counts[-1] == int(failing)
    counting = re.compile(r"judging \S+ +[\d,]+/[\d,]+ +[\d,]+/s +\d:\d\d:\d\d +\d+ failing")
    assert any(map(counting.search, shown.moving))


def test_a_narrow_terminal(terminal: Terminal) -> None:
    """All but the bar itself stays in one line, and no word of the table is torn."""
    shown = terminal(*RUN, columns=60)
    bars = [line for line in shown.moving if "failing" in line]
    assert bars
    assert max(map(len, bars)) <= 60
    assert not any("\N{HORIZONTAL ELLIPSIS}" in line for line in bars)
    assert re.search(r"grpo +token +0 +float32 +\d+/\d+ +DIVERGES +inf", CONTROL.sub("", shown.raw))
    assert "loss_type  level  beta  dtype" in CONTROL.sub("", shown.raw)


def test_no_colour(terminal: Terminal) -> None:
    """NO_COLOR takes colours away, progress stays; TERM=dumb takes everything that steers."""
    assert not COLOUR.search(terminal(*RUN, NO_COLOR="1").raw)
    assert "\x1b" not in terminal(*RUN, TERM="dumb").raw


def test_colours_that_a_log_asks_for_move_nothing(lossgate: Lossgate) -> None:
    """CI systems set FORCE_COLOR: that colours the table, and no bar writes into the log."""
    result = lossgate(*RUN, FORCE_COLOR="1", NO_COLOR="")
    assert "\x1b" not in result.stderr
    assert "\x1b[?25l" not in result.stdout
