"""What a target takes, prints, starts and breaks: one clear outcome, the next case is answered, nothing stays."""

from __future__ import annotations

import inspect
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from textwrap import dedent

import misbehaving
import numpy as np
import pytest

from cases.case import Case
from harness.client import Outcome, WorkerClient
from harness.worker import protocol
from harness.worker_process import WorkerDied, WorkerProcess

MakeCase = Callable[..., Case]
Ends = Callable[[int], bool]
Ask = Callable[[str], Outcome]

OPTIONS = {"loss_type": "grpo"}
MEMORY = 2 * misbehaving.GB

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits memory and shows environments")


def behaving(case: Case, behaviour: str) -> Case:
    """The case on which the target behaves like that."""
    number = list(misbehaving.BEHAVIOURS).index(behaviour)
    return replace(case, spec=replace(case.spec, max_completion_length=misbehaving.FIRST + number))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the target is, and where its process runs."""
    path = tmp_path_factory.mktemp("target")
    shutil.copy(inspect.getfile(misbehaving), path)
    return path


@pytest.fixture(scope="module")
def client(folder: Path) -> Iterator[WorkerClient]:
    """One client for all: what one case does must not reach the next."""
    with WorkerClient(sys.executable, "misbehaving:loss", OPTIONS, folder, timeout=20, memory=MEMORY) as client:
        yield client


@pytest.fixture
def ask(client: WorkerClient, make_case: MakeCase) -> Iterator[Ask]:
    """Ask for a behaviour; afterwards the target still answers, and rightly."""
    yield lambda behaviour: client.ask(behaving(make_case(), behaviour))
    outcome = client.ask(behaving(make_case(), "healthy"))
    assert outcome.status == "ok", outcome.message
    batch = make_case().batch
    np.testing.assert_array_equal(outcome.gradient, -batch.token_advantages * batch.mask)


@on_linux
@pytest.mark.parametrize(
    ("behaviour", "raised"),
    [
        ("allocates_30_gb", "RuntimeError: "),
        ("allocates_30_gb_of_bytes", "MemoryError"),
        ("fills_memory", "MemoryError"),
    ],
)
def test_running_out_of_memory_is_an_error_that_names_the_limit(
    ask: Ask, client: WorkerClient, behaviour: str, raised: str
) -> None:
    """In one piece or bit by bit, in torch or in Python: the process lives on, and has its memory back."""
    outcome = ask("healthy")
    pid = client.pid
    outcome = ask(behaviour)
    assert outcome.status == "error"
    expected = f"ran out of memory: it may allocate 2 GB (--memory); it raised {raised}"
    assert outcome.message.splitlines()[0].startswith(expected)
    assert f"in {behaviour}" in outcome.message
    assert client.pid == pid


@on_linux
def test_running_out_of_memory_where_nothing_catches_it_is_a_crash(ask: Ask) -> None:
    """A C++ exception ends the process; the limit is named as what may have caused it."""
    outcome = ask("allocates_in_cpp")
    assert outcome.status == "crash"
    first = outcome.message.splitlines()[0]
    assert first == "died of SIGABRT (Aborted), perhaps for want of memory: it may allocate 2 GB (--memory)"


@on_linux
def test_without_a_limit_memory_is_the_systems(folder: Path, make_case: MakeCase) -> None:
    """None sets none: the message is torch's alone, or the allocation succeeds untouched."""
    with WorkerClient(sys.executable, "misbehaving:loss", OPTIONS, folder) as client:
        client.ask(make_case())
        limits = Path(f"/proc/{client.pid}/limits").read_text()
    (line,) = [line for line in limits.splitlines() if line.startswith("Max data size")]
    assert line.split()[3] == "unlimited"


def test_endless_output_is_a_crash_and_does_not_fill_the_disk(ask: Ask) -> None:
    """It is ended long before its time is up; the end of what it printed is shown."""
    start = time.monotonic()
    outcome = ask("prints_endlessly")
    assert time.monotonic() - start < 15
    assert outcome.status == "crash"
    first, _, printed = outcome.message.splitlines()
    assert first == "printed more than 64 MB and was killed"
    assert "all work and no play" in printed


def test_a_huge_file_is_an_error(ask: Ask, folder: Path) -> None:
    """What is printed while nobody looks is a file too."""
    outcome = ask("writes_a_huge_file")
    assert outcome.status == "error"
    assert outcome.message.startswith("wrote more than 1 GB to one file; it raised OSError: ")
    assert (folder / "huge").stat().st_size <= misbehaving.GB


@pytest.mark.parametrize("behaviour", ["loops_in_c", "ignores_signals"])
def test_a_target_that_no_python_code_can_stop_is_a_timeout(
    folder: Path, make_case: MakeCase, ends: Ends, behaviour: str
) -> None:
    """Be the interpreter's lock held or the signal ignored: it is killed after its time."""
    with WorkerClient(sys.executable, "misbehaving:loss", OPTIONS, folder, timeout=1) as client:
        pid = client.pid
        assert pid is not None
        outcome = client.ask(behaving(make_case(), behaviour))
        assert outcome.status == "timeout"
        assert outcome.message.startswith("gave no answer within 1 s and was killed")
        assert ends(pid)
        if behaviour == "loops_in_c":
            assert "in loops_in_c" in outcome.message


def test_a_null_pointer_is_a_crash(ask: Ask) -> None:
    """The signal and the place in the target's code are named."""
    outcome = ask("segfaults")
    assert outcome.status == "crash"
    assert outcome.message.startswith("died of SIGSEGV (Segmentation fault)\n")
    assert "in segfaults" in outcome.message


def test_what_a_target_writes_into_the_protocol_is_no_answer(ask: Ask) -> None:
    """It finds the pipe among the open files: the case is lost, and is not taken for answered."""
    outcome = ask("writes_to_every_file")
    assert outcome.status == "crash"
    first = outcome.message.splitlines()[0]
    assert first == "sent what is no answer and was killed (got b'a progress bar t' where a message begins)"


def test_a_target_that_closes_every_file_is_a_crash(ask: Ask) -> None:
    """Said in a sentence, though the process can no longer print one."""
    outcome = ask("closes_every_file")
    assert (outcome.status, outcome.message) == ("crash", "closed the files that it was to answer on, and ended")


def test_a_child_that_comes_back_out_of_the_target_answers_nothing(
    client: WorkerClient, make_case: MakeCase
) -> None:
    """Its answer would be taken for that to the next case."""
    case = make_case()
    first = client.ask(behaving(case, "comes_back_twice"))
    for outcome in (first, *(client.ask(case) for _ in range(5))):
        assert outcome.status == "ok"
        np.testing.assert_array_equal(outcome.gradient, -case.batch.token_advantages * case.batch.mask)


def test_an_answer_to_another_case_is_refused(client: WorkerClient, make_case: MakeCase) -> None:
    """Answers bear the number of their case: one too many would shift all that follow."""
    case = make_case()
    assert client.ask(case).status == "ok"
    client.submit(case)
    sent = client._under_way.pop()
    client._under_way.append(sent._replace(number=99))  # as if it were another case that is answered
    outcome = client.receive(99)
    assert outcome.status == "crash"
    assert outcome.message.startswith("sent what is no answer and was killed (it answers another case)")
    assert client.ask(case).status == "ok"


def test_a_target_that_seeds_does_not_reach_the_next_case(client: WorkerClient, make_case: MakeCase) -> None:
    """Random numbers of a case are the same whatever was asked before, and others in another attempt."""
    drawing = behaving(make_case(), "draws")
    before = client.ask(drawing)
    client.ask(behaving(make_case(), "reseeds"))
    after = client.ask(drawing)
    assert before.loss == after.loss
    assert client.ask(drawing, attempt=1).loss != before.loss


OUTLIVING = ["forks", "daemonises", "starts_a_service", "starts_without_environment", "starts_a_titled_one"]


@on_linux
@pytest.mark.parametrize("behaviour", [*OUTLIVING, "daemonises_and_hangs", "daemonises_and_leaves"])
def test_no_child_outlives_the_worker(folder: Path, make_case: MakeCase, ends: Ends, behaviour: str) -> None:
    """However it was started, wherever it went: it ends with the worker, on closing, on a timeout, on a crash."""
    case = behaving(make_case(), behaviour)
    with WorkerClient(sys.executable, "misbehaving:loss", OPTIONS, folder, timeout=3) as client:
        status = client.ask(case).status
        child = int((folder / "child.pid").read_text())
        if behaviour in OUTLIVING:
            assert status == "ok"
            os.kill(child, 0)
        else:
            assert status == ("timeout" if behaviour.endswith("hangs") else "crash")
            assert ends(child)
    assert ends(child)


@on_linux
@pytest.mark.parametrize("behaviour", ["forks", "daemonises", "daemonises_and_hangs"])
def test_no_child_outlives_a_parent_that_is_killed(
    folder: Path, make_case: MakeCase, ends: Ends, tmp_path: Path, behaviour: str
) -> None:
    """Where nobody is left to close the worker, what it started ends nevertheless."""
    path = tmp_path / "case.json"
    path.write_text(behaving(make_case(), behaviour).to_json())
    (folder / "child.pid").unlink(missing_ok=True)
    parent = """
        import os, signal, sys, time
        from pathlib import Path
        from cases.case import Case
        from harness.client import WorkerClient

        folder = Path(sys.argv[1])
        client = WorkerClient(sys.executable, "misbehaving:loss", {"loss_type": "grpo"}, cwd=folder)
        client.submit(Case.from_json(Path(sys.argv[2]).read_text()))
        while not (folder / "child.pid").exists() or not (folder / "child.pid").read_text():
            time.sleep(0.01)
        print(client.pid, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    """
    result = subprocess.run(
        [sys.executable, "-c", dedent(parent), str(folder), str(path)], stdout=subprocess.PIPE, text=True
    )
    assert result.returncode == -signal.SIGKILL
    assert ends(int(result.stdout))
    assert ends(int((folder / "child.pid").read_text()))


def test_another_version_of_the_protocol_is_refused() -> None:
    """By the worker, in a sentence, before anything else is said."""
    process = WorkerProcess(sys.executable, None)
    deadline = time.monotonic() + 60
    process.send(protocol.pack({"request": "hello", "protocol": 999, "memory": None}), deadline)
    with pytest.raises(WorkerDied) as caught:
        process.receive(deadline)
    assert process.end(caught.value, 60) == ("ended with exit status 1", "protocol 999 is not spoken here")
