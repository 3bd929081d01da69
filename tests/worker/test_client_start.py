"""A target that does not start says what is missing and what to do."""

from __future__ import annotations

import os
import sys
import venv
from collections.abc import Callable
from pathlib import Path

import pytest

from cases.case import Case
from harness.client import TargetUnavailable, WorkerClient
from harness.worker_start import time_to_start

MakeCase = Callable[..., Case]

TARGET = """
def loss(logps, advantages, mask, epsilon_low, epsilon_high, old_logps):
    return -(logps * advantages[:, None] * mask).sum()
"""
OPTIONS = {"loss_type": "grpo"}


def failure(python: str, target: str, cwd: Path | None = None, **options: float) -> TargetUnavailable:
    """How a start fails; `match` in the tests is for its message."""
    with pytest.raises(TargetUnavailable) as caught, WorkerClient(python, target, OPTIONS, cwd, **options):
        pass
    return caught.value


def test_an_interpreter_that_is_not_there(tmp_path: Path) -> None:
    """By path or by name, with the folder of an environment as a frequent mistake."""
    absent = failure(str(tmp_path / "python"), "trl")
    assert (absent.kind, str(absent)) == ("interpreter", f"there is no interpreter at {tmp_path / 'python'}")
    unnamed = failure("python-of-nobody", "trl")
    assert (unnamed.kind, str(unnamed)) == ("interpreter", "there is no python-of-nobody on the PATH")
    folder = failure(str(tmp_path), "trl")
    assert folder.kind == "interpreter"
    assert str(folder) == f"{tmp_path} is a folder; the interpreter in it may be {tmp_path / 'bin' / 'python'}"


def test_an_interpreter_that_is_none(tmp_path: Path) -> None:
    """A file that cannot be executed, one that is no program, and a program that is no Python."""
    file = tmp_path / "python"
    file.write_text("no program")
    assert str(failure(str(file), "trl")) == f"{file} cannot be executed"
    file.chmod(0o755)
    assert str(failure(str(file), "trl")).startswith(f"{file} cannot be started: ")
    file.write_text("#!/bin/sh\necho 'what is -c?' >&2\nexit 2\n")
    program = failure(str(file), "trl")
    assert program.kind == "interpreter"
    assert str(program) == f"{file} cannot run a target: its process ended with exit status 2 (what is -c?)"


def test_an_interpreter_without_torch(tmp_path: Path) -> None:
    """The sentence names the interpreter, the hint installs torch into it."""
    venv.create(tmp_path, symlinks=True, with_pip=False)
    python = tmp_path / "bin" / "python"
    error = failure(str(python), "trl")
    assert error.kind == "not_installed"
    assert "has no torch" in str(error)
    assert error.hint == f"{python} -m pip install torch"


def test_a_library_that_is_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The hint is the command that installs it."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (tmp_path / "trl.py").write_text("raise ModuleNotFoundError(\"No module named 'trl'\", name='trl')")
    error = failure(sys.executable, "trl")
    assert (error.kind, str(error)) == ("not_installed", "trl is not installed")
    assert error.hint == f"{sys.executable} -m pip install trl"


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ("raise RuntimeError('no GPU here')", "trl does not start: it raised RuntimeError: no GPU here"),
        ("import vllm_of_nobody", "trl does not start: it raised ModuleNotFoundError: No module named"),
        ("raise SystemExit(1)", "trl does not start: it raised SystemExit: 1"),
        ("DPOTrainer = None", "the trl here has no GRPOTrainer"),
        ("import os; os._exit(7)", "trl does not start: its process ended with exit status 7"),
    ],
)
def test_a_library_that_is_broken(
    tmp_path: Path, source: str, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever its import does, it is told apart from one that is not installed."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (tmp_path / "trl.py").write_text(source)
    error = failure(sys.executable, "trl")
    assert error.kind == "broken"
    assert str(error).startswith(sentence)
    if "raised" in sentence:
        assert "trl.py" in error.details


def test_a_start_that_takes_too_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is given up, where it was is shown, and how long a start may take is said."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (tmp_path / "trl.py").write_text("import time\ntime.sleep(600)")
    error = failure(sys.executable, "trl", start_timeout=15.0)
    assert error.kind == "broken"
    assert str(error).startswith("trl does not start: its process gave no answer within 15 s and was killed")
    assert error.hint == "a start may take 3 times --timeout, at least 30 s"
    assert "trl.py" in error.details


def test_how_long_a_start_may_take_follows_from_the_time_of_a_case() -> None:
    """Three times as long, yet long enough to import a library."""
    assert [time_to_start(timeout) for timeout in (0.5, 10.0, 20.0, 60.0)] == [30.0, 30.0, 60.0, 180.0]


def test_a_folder_that_is_gone(tmp_path: Path) -> None:
    """Not a system error about the interpreter, which is there."""
    error = failure(sys.executable, "losses:loss", tmp_path / "gone")
    assert error.kind == "interpreter"
    assert str(error) == f"the folder that losses:loss is to start in is gone: {tmp_path / 'gone'}"


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits memory")
@pytest.mark.parametrize("megabytes", [8, 24, 100, 150])
def test_too_little_memory_to_start_in(megabytes: int) -> None:
    """Imports then fail in many ways, some of which end the process; each says what may be the reason."""
    error = failure(sys.executable, "fault:none", memory=megabytes * 2**20)
    allowed = f"it may allocate {megabytes / 2**10:.3g} GB (--memory)"
    assert error.hint == f"{allowed}; to import torch and a library can take 2 GB"


def test_the_current_folder_hides_no_library(tmp_path: Path) -> None:
    """In a checkout of TRL, or beside a folder of that name, the installed one is judged."""
    (tmp_path / "trl").mkdir()
    (tmp_path / "trl" / "__init__.py").write_text("raise RuntimeError('not this one')")
    with WorkerClient(sys.executable, "trl", cwd=tmp_path) as client:
        assert str(tmp_path) not in client.facts.versions["from"]


def test_a_name_that_is_unknown() -> None:
    """It lists what is known, and what may have been meant."""
    error = failure(sys.executable, "trll")
    assert error.kind == "unknown"
    assert str(error).startswith("no target named 'trll'; known here: ")
    assert {"trl", "fault:NAME", "module:function"} <= set(str(error).replace(",", "").split())
    assert error.hint == "did you mean 'trl'?"


def test_targets_are_imported_from_the_folder_and_nothing_of_ours_is_in_their_way(
    tmp_path: Path, make_case: MakeCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user's own `cases` or `harness` is theirs, also where safe paths are asked for."""
    monkeypatch.setenv("PYTHONSAFEPATH", "1")
    for name in ("cases", "harness", "protocol"):
        (tmp_path / f"{name}.py").write_text(TARGET)
    with WorkerClient(sys.executable, "harness:loss", OPTIONS, tmp_path) as client:
        assert client.ask(make_case()).status == "ok"
        assert client.facts.label == "harness:loss"
    assert sorted(os.listdir(tmp_path)) == ["cases.py", "harness.py", "protocol.py"]


def test_settings_that_an_import_changes_are_among_the_facts(tmp_path: Path, make_case: MakeCase) -> None:
    """Cases run under the pinned ones, so what the target meant to run under is not what runs."""
    source = "import torch\ntorch.set_default_dtype(torch.float64)\n" + TARGET
    (tmp_path / "doubled.py").write_text(source)
    with WorkerClient(sys.executable, "doubled:loss", OPTIONS, tmp_path) as client:
        (replaced,) = client.facts.replaced
        assert replaced.startswith("changed the default dtype to torch.float64")
        assert client.ask(make_case()).notes == ()
