"""Targets that take, break or leave more than a loss should, through the command: one verdict each, named."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from reports.run import Run
from tests.cli.conftest import EXAMPLE, Lossgate

FEW = ("--loss-type", "bnpo", "--dtype", "float32", "--level", "token", "--beta", "0", "--examples", "1", "-q")
FIRST_LINE = "    if advantages.dim() == 1:\n"

# What happens in the cases of three completions of four positions: the verdict, what it says, and how.
MISBEHAVIOURS = {
    "30 GB": (
        "error",
        "ran out of memory: it may allocate 16 GB (--memory); it raised RuntimeError: ",
        "torch.empty(30 * 2**28).fill_(1)",
    ),
    "endless output": (
        "crash",
        "printed more than 64 MB and was killed",
        "while True: print('all work and no play' * 1000)",
    ),
    "a lock that is held for ever": (
        "timeout",
        "gave no answer within 3 s and was killed",
        "import re; re.match('(a+)+$', 'a' * 60 + 'b')",
    ),
    "a null pointer": ("crash", "died of SIGSEGV", "import ctypes; ctypes.string_at(0)"),
    "closed files": ("crash", "closed the files that it was to answer on", "import os; os.closerange(0, 256)"),
    "SystemExit": ("error", "raised SystemExit: enough", "raise SystemExit('enough')"),
    "NaN": ("diverges", "nan", "return logps.sum() * float('nan')"),
    "a changed input": ("error", "changed its input 'logps' in place", "logps.data.mul_(2)"),
    "another answer every time": (
        "nondeterministic",
        "two answers to the same case differ",
        "import time; logps = logps * (1 + time.perf_counter() % 1)",
    ),
}


def misbehaving(folder: Path, deed: str) -> str:
    """The name of a target that does one thing too many in some cases."""
    text = EXAMPLE.read_text()
    assert text.count(FIRST_LINE) == 1
    wrong = f"    if logps.shape == (3, 4):\n        {deed}\n{FIRST_LINE}"
    (folder / "wrong.py").write_text(text.replace(FIRST_LINE, wrong))
    return "wrong:loss"


def is_running(pid: str) -> bool:
    """Whether there is such a process; one that has ended may keep its number until it is collected."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("what", MISBEHAVIOURS)
def test_a_target_that_misbehaves_now_and_then(what: str, lossgate: Lossgate, folder: Path) -> None:
    """The cases it does so in have one verdict, which the table names; all others are judged, and the run ends."""
    verdict, says, deed = MISBEHAVIOURS[what]
    if "memory" in says and sys.platform != "linux":
        pytest.skip("only Linux limits memory")
    result = lossgate("run", misbehaving(folder, deed), *FEW, "--timeout", "3", "--out", "out")
    assert result.stderr == ""
    assert result.returncode == 1, result.stdout
    assert verdict.upper() in result.stdout
    run = Run.load(folder / "out")
    assert run.complete
    rows = run.rows[run.rows["phase"] != "shrunk"]
    hit = (rows["rows"] == 3) & (rows["columns"] == 4) & ~rows["message"].str.contains("is not supported")
    assert set(rows[hit]["verdict"]) == {verdict}
    assert rows[hit]["message"].str.contains(says, regex=False).all(), rows[hit]["message"].iloc[0]
    assert not set(rows[~hit]["verdict"]) - {"conforms", "overflow", "unsupported"}


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits memory")
def test_memory_is_what_the_option_says(lossgate: Lossgate, folder: Path) -> None:
    """In the process of the target, and in the sentence about it."""
    target = misbehaving(folder, "torch.empty(3 * 2**28)")
    assert lossgate("run", target, *FEW).returncode == 0
    result = lossgate("run", target, *FEW, "--memory", "2")
    assert result.returncode == 1
    assert "it may allocate 2 GB" in " ".join(result.stdout.split())


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux shows which processes a target started")
def test_a_daemon_of_a_target_ends_with_the_run(lossgate: Lossgate, folder: Path) -> None:
    """Also where the run itself has nothing to complain about."""
    deed = (
        "import subprocess; child = subprocess.Popen(['sleep', '600'], start_new_session=True); "
        "print(child.pid, file=open('children', 'a'))"
    )
    result = lossgate("run", misbehaving(folder, deed), *FEW)
    assert result.returncode == 0, result.stdout
    children = (folder / "children").read_text().split()
    assert children
    assert not list(filter(is_running, children))


def test_a_target_that_raises_when_it_is_imported(lossgate: Lossgate, folder: Path) -> None:
    """Nothing is judged: exit 3, with what was raised and where."""
    (folder / "wrong.py").write_text("raise SystemExit('not today')\n")
    result = lossgate("run", "wrong:loss", *FEW)
    assert result.returncode == 3
    assert result.stderr.startswith("lossgate: wrong:loss does not start: it raised SystemExit: not today\n")
    assert "wrong.py" in result.stderr
    assert result.stdout == ""
