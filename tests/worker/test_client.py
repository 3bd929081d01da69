"""However a target misbehaves, each case has one clear outcome and the next case is answered."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from textwrap import dedent
from typing import Final

import numpy as np
import pytest

from cases.case import Case
from harness.client import Outcome, TargetUnavailable, WorkerClient

MakeCase = Callable[..., Case]
Ends = Callable[[int], bool]

TARGET = """
    import os, signal, subprocess, sys, time, torch

    def healthy(logps, advantages, mask):
        return -(logps * advantages[:, None] * mask).sum()

    def raises(logps, advantages, mask):
        raise ValueError("no such " + "thing\\nat all")

    def exits(logps, advantages, mask):
        sys.exit("enough")

    def interrupts(logps, advantages, mask):
        raise KeyboardInterrupt

    def runs_out_of_memory(logps, advantages, mask):
        raise MemoryError

    def leaves(logps, advantages, mask):
        print("the last words")
        os._exit(3)

    def segfaults(logps, advantages, mask):
        os.kill(os.getpid(), signal.SIGSEGV)

    def hangs(logps, advantages, mask):
        while True:
            pass

    def chatters(logps, advantages, mask):
        for _ in range(40):
            print("x" * 100_000)
            os.write(1, b"y" * 1000)
            os.write(2, b"z" * 1000)
        return healthy(logps, advantages, mask)

    def chatters_and_raises(logps, advantages, mask):
        os.write(1, b"written to fd 1\\n")
        print("printed in \\33[31mred\\33[0m to stderr", file=sys.stderr)
        raise RuntimeError("then it fell over \\udc80")

    def changes_advantages(logps, advantages, mask):
        advantages -= advantages.mean()
        return healthy(logps, advantages, mask)

    def changes_sign_of_zero(logps, advantages, mask):
        advantages[advantages == 0] = -0.0
        return healthy(logps, advantages, mask)

    def changes_logps(logps, advantages, mask):
        loss = healthy(logps, advantages, mask)
        logps.data.clamp_(max=-1e-3).mul_(0.5)
        return loss

    def resizes_mask(logps, advantages, mask):
        loss = healthy(logps, advantages, mask)
        mask.resize_(1, 1)
        return loss

    def changes_settings(logps, advantages, mask):
        torch.set_default_dtype(torch.float64)
        torch.set_num_threads(2)
        torch.set_grad_enabled(False)
        with torch.enable_grad():
            return healthy(logps, advantages, mask)

    def settings(logps, advantages, mask):
        assert torch.get_default_dtype() is torch.float32
        assert torch.get_num_threads() == 1
        return healthy(logps, advantages, mask) + torch.rand(())

    def returns_float(logps, advantages, mask):
        return healthy(logps, advantages, mask).item()

    def returns_none(logps, advantages, mask):
        pass

    def returns_one_element(logps, advantages, mask):
        return healthy(logps, advantages, mask).reshape(1)

    def returns_integer(logps, advantages, mask):
        return mask.sum()

    def returns_detached(logps, advantages, mask):
        return healthy(logps, advantages, mask).detach()

    def returns_pair(logps, advantages, mask):
        return healthy(logps, advantages, mask), {"metrics": 1}

    def ignores_logps(logps, advantages, mask):
        return torch.zeros((), requires_grad=True) + 1.5

    def returns_nan(logps, advantages, mask):
        return healthy(logps, advantages, mask) * float("nan")

    def backward_raises(logps, advantages, mask):
        class Broken(torch.autograd.Function):
            @staticmethod
            def forward(context, x):
                return x.sum()

            @staticmethod
            def backward(context, gradient):
                raise RuntimeError("no backward")

        return Broken.apply(logps)

    def leaves_a_child(logps, advantages, mask):
        child = subprocess.Popen(["sleep", "600"])
        with open("child.pid", "w") as file:
            file.write(str(child.pid))
        os._exit(1)

    def forks_and_leaves(logps, advantages, mask):
        if os.fork() == 0:
            time.sleep(600)
        os._exit(1)

    def closes_everything(logps, advantages, mask):
        os.closerange(3, 256)
        return healthy(logps, advantages, mask)

    BEHAVIOURS = [value for value in list(globals().values()) if callable(value)]

    def loss(logps, advantages, mask, old_logps, epsilon_low, epsilon_high, max_completion_length):
        behaviour = max_completion_length - 1000
        return (BEHAVIOURS[behaviour] if behaviour >= 0 else healthy)(logps, advantages, mask)
"""
BEHAVIOURS = [line.split()[1].split("(")[0] for line in TARGET.splitlines() if line.startswith("    def ")]


def behaving(case: Case, behaviour: str) -> Case:
    """The case on which the target behaves like that; on any other it is healthy."""
    return replace(case, spec=replace(case.spec, max_completion_length=1000 + BEHAVIOURS.index(behaviour)))


Ask = Callable[..., Outcome]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the target is, which is also where its process runs."""
    path = tmp_path_factory.mktemp("target")
    (path / "misbehaving.py").write_text(dedent(TARGET))
    return path


@pytest.fixture(scope="module")
def client(folder: Path) -> Iterator[WorkerClient]:
    """One client for all: what one case does must not reach the next."""
    with WorkerClient(sys.executable, "misbehaving:loss", {"loss_type": "grpo"}, cwd=folder, timeout=20) as client:
        yield client


@pytest.fixture
def ask(client: WorkerClient, make_case: MakeCase) -> Iterator[Ask]:
    """Ask for a behaviour; afterwards the target still answers."""

    def asked(behaviour: str, **kind: object) -> Outcome:
        return client.ask(behaving(make_case(**kind), behaviour))

    yield asked
    outcome = asked("healthy")
    assert outcome.status == "ok", outcome.message
    batch = make_case().batch
    np.testing.assert_array_equal(outcome.gradient, -batch.token_advantages * batch.mask)


def test_an_answer_is_loss_gradient_and_time(ask: Ask, make_case: MakeCase) -> None:
    """A target that works: loss and gradient in float64, (B, T), read-only."""
    outcome = ask("healthy", dtype="bfloat16")
    batch = make_case(dtype="bfloat16").batch
    assert outcome.status == "ok"
    assert outcome.message == ""
    assert outcome.notes == ()
    assert outcome.loss_dtype == "bfloat16"
    assert 0 < outcome.seconds < 1
    assert outcome.gradient is not None
    assert outcome.gradient.dtype == np.float64
    assert not outcome.gradient.flags.writeable
    np.testing.assert_array_equal(outcome.gradient, -batch.token_advantages * batch.mask)


@pytest.mark.parametrize(
    ("behaviour", "sentence"),
    [
        ("raises", "raised ValueError: no such thing at all"),
        ("exits", "raised SystemExit: enough"),
        ("interrupts", "raised KeyboardInterrupt"),
        ("runs_out_of_memory", "raised MemoryError"),
        ("backward_raises", "raised RuntimeError: no backward"),
    ],
)
def test_whatever_a_target_raises_is_an_error(ask: Ask, behaviour: str, sentence: str) -> None:
    """The sentence says what was raised, the traceback below begins in the target's own code."""
    outcome = ask(behaviour)
    assert outcome.status == "error"
    first, heading, *frames = outcome.message.splitlines()
    assert first == sentence
    assert heading == "Traceback (most recent call last):"
    assert "evaluation.py" not in frames[0]


@pytest.mark.parametrize(
    ("behaviour", "sentence"),
    [
        ("returns_float", "returned a float where a tensor is needed"),
        ("returns_none", "returned a NoneType where a tensor is needed"),
        ("returns_one_element", "returned a tensor of shape (1,) where one number, shape (), is needed"),
        ("returns_integer", "returned a loss of torch.int64, which is no floating-point type"),
        (
            "returns_detached",
            "returned a loss that is detached: it has no gradient with respect to logps, "
            "nor is there a tensor of their shape beside it that could be it",
        ),
        ("changes_advantages", "changed its input 'advantages' in place"),
        ("changes_logps", "changed its input 'logps' in place"),
        ("resizes_mask", "changed its input 'mask' in place"),
    ],
)
def test_what_is_no_loss_is_an_error_that_says_why(ask: Ask, behaviour: str, sentence: str) -> None:
    """A wrong answer of the wrong kind is never turned into a number."""
    outcome = ask(behaviour)
    assert (outcome.status, outcome.message) == ("error", sentence)


def test_inputs_are_compared_by_their_bits(client: WorkerClient, make_case: MakeCase) -> None:
    """-0 equals 0 and yet is not what the target was given."""
    case = make_case()
    zeros = replace(case.batch, advantages=np.zeros(case.batch.rows))
    outcome = client.ask(behaving(replace(case, batch=zeros), "changes_sign_of_zero"))
    assert outcome.message == "changed its input 'advantages' in place"


def test_settings_are_put_back_and_noted(ask: Ask) -> None:
    """A case that changes torch's settings says so, and the next one finds them as they were."""
    outcome = ask("changes_settings")
    assert outcome.status == "ok"
    assert [note.split(";")[0] for note in outcome.notes] == [
        "changed the default dtype to torch.float64",
        "changed the number of threads to 2",
        "left gradients disabled",
    ]
    first, second = ask("settings"), ask("settings")
    assert first.status == "ok", first.message
    assert first.notes == ()
    assert first.loss == second.loss


def test_a_pair_is_answered_by_its_first_member(ask: Ask) -> None:
    """Losses are often returned with their metrics."""
    assert ask("returns_pair").loss == ask("healthy").loss


def test_a_loss_that_ignores_logps_has_gradient_zero(ask: Ask) -> None:
    """Attached to something else is attached; whether 0 is right is for the judge."""
    outcome = ask("ignores_logps")
    assert outcome.loss == 1.5
    np.testing.assert_array_equal(outcome.gradient, np.zeros((4, 8)))


def test_nan_is_an_answer(ask: Ask) -> None:
    """Whether a loss may be NaN is for the judge too."""
    outcome = ask("returns_nan")
    assert outcome.status == "ok"
    assert outcome.loss is not None
    assert math.isnan(outcome.loss)
    assert np.isnan(outcome.gradient).any()


def test_chatter_reaches_neither_the_protocol_nor_the_terminal(
    ask: Ask, capfd: pytest.CaptureFixture[str]
) -> None:
    """Megabytes on stdout and on fd 1 and 2 change nothing."""
    outcome = ask("chatters")
    assert outcome.status == "ok"
    assert outcome.message == ""
    assert capfd.readouterr() == ("", "")


def test_an_error_shows_what_was_printed_during_its_own_case(ask: Ask) -> None:
    """What an earlier case printed is not shown; what this one did is, without control characters."""
    ask("chatters")
    message = ask("chatters_and_raises").message
    assert message.startswith("raised RuntimeError: then it fell over \ufffd\n")
    assert message.endswith("it printed:\nwritten to fd 1\nprinted in \ufffd[31mred\ufffd[0m to stderr")


def test_a_process_that_leaves_is_a_crash(ask: Ask, client: WorkerClient, ends: Ends) -> None:
    """os._exit costs one case; the sentence has the exit status, and the last words are shown."""
    pid = client.pid
    assert pid is not None
    outcome = ask("leaves")
    assert outcome.status == "crash"
    assert outcome.message == "ended with exit status 3\nit printed:\nthe last words"
    assert ends(pid)


def test_a_segmentation_fault_is_a_crash(ask: Ask) -> None:
    """The sentence names the signal, and the place in the target's code is shown."""
    outcome = ask("segfaults")
    assert outcome.status == "crash"
    assert outcome.message.splitlines()[0] == "died of SIGSEGV (Segmentation fault)"
    assert "in segfaults" in outcome.message
    assert "Extension modules" not in outcome.message


def test_a_hang_is_a_timeout(folder: Path, make_case: MakeCase, ends: Ends) -> None:
    """It is killed after the time it was given, and the place where it hung is shown."""
    case = make_case()
    options = {"loss_type": "grpo"}
    with WorkerClient(sys.executable, "misbehaving:loss", options, cwd=folder, timeout=0.5) as client:
        pid = client.pid
        assert pid is not None
        start = time.monotonic()
        outcome = client.ask(behaving(case, "hangs"))
        assert time.monotonic() - start < 3
        assert ends(pid)
        assert outcome.status == "timeout"
        assert outcome.message.splitlines()[0] == "gave no answer within 0.5 s and was killed"
        assert "in hangs" in outcome.message
        assert outcome.seconds >= 0.5
        assert client.pid is None

        # A process that does not read: more is sent than a pipe holds.
        assert client.ask(case).status == "ok"
        assert client.pid is not None
        os.kill(client.pid, signal.SIGSTOP)
        large = make_case(columns=1024, repeat=8)
        assert client.ask(large).status == "timeout"


@pytest.mark.parametrize("behaviour", ["leaves_a_child", "forks_and_leaves"])
def test_a_crash_takes_the_children_with_it(ask: Ask, folder: Path, ends: Ends, behaviour: str) -> None:
    """Nothing that the target started stays behind, and a child that holds the pipe delays nothing."""
    start = time.monotonic()
    assert ask(behaviour).message == "ended with exit status 1"
    assert time.monotonic() - start < 5
    if behaviour == "leaves_a_child":
        assert ends(int((folder / "child.pid").read_text()))


def test_a_target_that_closes_the_pipes_is_a_crash(ask: Ask) -> None:
    """Answering is then impossible; it is not waited for."""
    outcome = ask("closes_everything")
    assert (outcome.status, outcome.message) == ("crash", "closed the files that it was to answer on, and ended")


def test_a_worker_killed_between_two_cases_is_a_crash(ask: Ask, client: WorkerClient) -> None:
    """Writing to a dead process is an outcome too, whatever the size of what is written."""
    for _ in range(2):
        assert ask("healthy").status == "ok"
        assert client.pid is not None
        os.kill(client.pid, signal.SIGKILL)
        time.sleep(0.05)
        outcome = ask("healthy")
        assert outcome.status == "crash"
        assert outcome.message.startswith("died of SIGKILL (Killed, perhaps for want of memory)")


def test_large_batches_go_through(ask: Ask) -> None:
    """Many times what a pipe holds, in both directions."""
    outcome = ask("healthy", columns=1024, repeat=8)
    assert outcome.status == "ok"
    assert outcome.gradient is not None
    assert outcome.gradient.shape == (32, 1024)


def test_what_a_target_cannot_do_is_unsupported(client: WorkerClient, make_case: MakeCase) -> None:
    """A reason, in one sentence, and no call."""
    outcome = client.ask(make_case(beta=0.04))
    assert outcome.status == "unsupported"
    assert outcome.message == "misbehaving:loss has no parameter beta, which beta 0.04 needs"
    assert outcome.loss is None


def test_what_was_not_submitted_is_not_received(client: WorkerClient, make_case: MakeCase) -> None:
    """Receiving nothing, or twice, is a mistake of the caller, and costs nothing."""
    with pytest.raises(RuntimeError, match="no such case is submitted"):
        client.receive()
    number = client.submit(make_case())
    assert client.receive(number).status == "ok"
    with pytest.raises(RuntimeError, match="no such case is submitted"):
        client.receive(number)


def test_cases_are_sent_ahead_of_answers(client: WorkerClient, make_case: MakeCase) -> None:
    """Each answer comes back for its own case, in whatever order they are fetched, or asked beside."""
    cases = [make_case(columns=columns) for columns in range(8, 13)]
    numbers = [client.submit(case) for case in cases[:4]]
    asked = client.ask(cases[4])
    found = [client.receive(numbers[place]) for place in (2, 0, 3, 1)]
    for outcome, case in zip((*found, asked), (cases[2], cases[0], cases[3], cases[1], cases[4]), strict=True):
        np.testing.assert_array_equal(outcome.gradient, -case.batch.token_advantages * case.batch.mask)


def test_large_cases_are_not_sent_ahead(client: WorkerClient, make_case: MakeCase) -> None:
    """What a pipe may not hold unread would have both sides wait for each other: the others are answered first."""
    case = make_case()
    large = replace(case, batch=case.batch.take(rows=[0, 1] * 256, columns=[0, 1] * 64))
    assert client.has_room(case)
    assert not client.has_room(large)
    numbers = [client.submit(one) for one in (case, large, large, case)]
    assert [client.receive(number).status for number in reversed(numbers)] == ["ok"] * 4


@pytest.mark.parametrize(("way", "status"), [("leaves", "crash"), ("hangs", "timeout"), ("raises", "error")])
def test_one_of_several_under_way_is_lost_alone(way: str, status: str, folder: Path, make_case: MakeCase) -> None:
    """The case that ends a process is the one that fails; those behind it are asked anew, each once."""
    case = make_case()
    cases = [case, behaving(case, way), case, case]
    with WorkerClient(sys.executable, "misbehaving:loss", {"loss_type": "grpo"}, cwd=folder, timeout=3) as client:
        numbers = [client.submit(one) for one in cases]
        outcomes = [client.receive(number) for number in numbers]
    assert [outcome.status for outcome in outcomes] == ["ok", status, "ok", "ok"]
    for outcome in (outcomes[0], *outcomes[2:]):
        np.testing.assert_array_equal(outcome.gradient, -case.batch.token_advantages * case.batch.mask)


def test_a_case_is_submitted_while_others_were_lost(folder: Path, make_case: MakeCase) -> None:
    """After a crash, what comes next is sent behind what was under way, to one and the same new process."""
    case = make_case()
    with WorkerClient(sys.executable, "misbehaving:loss", {"loss_type": "grpo"}, cwd=folder, timeout=20) as client:
        numbers = [client.submit(one) for one in (behaving(case, "leaves"), case, case)]
        assert client.receive(numbers[0]).status == "crash"
        numbers.append(client.submit(case))
        assert client.ask(case).status == "ok"
        assert [client.receive(number).status for number in numbers[1:]] == ["ok"] * 3


def test_what_is_printed_belongs_to_its_case(client: WorkerClient, make_case: MakeCase) -> None:
    """With others under way, an error shows what was printed during its own case alone."""
    ways = ("chatters", "raises", "chatters_and_raises", "chatters")
    numbers = [client.submit(behaving(make_case(), way)) for way in ways]
    first, silent, wordy, last = (client.receive(number) for number in numbers)
    assert (first.status, silent.status, wordy.status, last.status) == ("ok", "error", "error", "ok")
    assert "it printed" not in silent.message
    assert "written to fd 1" in wordy.message
    assert "yyy" not in wordy.message


def test_an_interrupted_wait_ends_the_process(client: WorkerClient, make_case: MakeCase, ends: Ends) -> None:
    """Ctrl-C in the parent reaches the caller, leaves no process, and the client can go on."""
    case = make_case()
    client.submit(behaving(case, "hangs"))
    pid = client.pid
    assert pid is not None

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    previous = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        with pytest.raises(KeyboardInterrupt):
            client.receive()
    finally:
        signal.signal(signal.SIGALRM, previous)
    assert ends(pid)
    assert client.ask(case).status == "ok"


def test_sigint_does_not_end_the_worker(client: WorkerClient, make_case: MakeCase) -> None:
    """Ctrl-C is the parent's to handle."""
    assert client.ask(make_case()).status == "ok"
    pid = client.pid
    assert pid is not None
    os.kill(pid, signal.SIGINT)
    assert client.ask(make_case()).status == "ok"
    assert client.pid == pid


@pytest.mark.parametrize("behaviour", ["healthy", "hangs"])
def test_a_worker_ends_with_its_parent(
    folder: Path, make_case: MakeCase, ends: Ends, tmp_path: Path, behaviour: str
) -> None:
    """A parent that is killed leaves no worker, be it idle or stuck in a target."""
    path = tmp_path / "case.json"
    path.write_text(behaving(make_case(), behaviour).to_json())
    parent = """
        import os, signal, sys, time
        from pathlib import Path
        from cases.case import Case
        from harness.client import WorkerClient

        client = WorkerClient(sys.executable, "misbehaving:loss", {"loss_type": "grpo"}, cwd=Path(sys.argv[1]))
        client.submit(Case.from_json(Path(sys.argv[2]).read_text()))
        print(client.pid, flush=True)
        time.sleep(0.2)
        os.kill(os.getpid(), signal.SIGKILL)
    """
    result = subprocess.run(
        [sys.executable, "-c", dedent(parent), str(folder), str(path)], capture_output=True, text=True
    )
    assert result.returncode == -signal.SIGKILL, result.stderr
    assert ends(int(result.stdout))


def test_closing_ends_the_process(folder: Path, make_case: MakeCase, ends: Ends) -> None:
    """With or without an outstanding case, and a closed client starts again when it is asked."""
    client = WorkerClient(sys.executable, "misbehaving:loss", {"loss_type": "grpo"}, cwd=folder)
    client.close()
    with client:
        idle = client.pid
    assert idle is not None
    assert ends(idle)
    client.submit(make_case())
    busy = client.pid
    assert busy is not None
    client.close()
    assert client.pid is None
    assert ends(busy)


SLOW: Final = """
    import os, time
    from pathlib import Path

    Path("pid").write_text(str(os.getpid()))
    while not Path("go").exists():
        time.sleep(0.01)

    def loss(logps, advantages, mask, old_logps, epsilon_low, epsilon_high, max_completion_length):
        return -(logps * advantages[:, None] * mask).sum()
"""


@pytest.fixture
def slow(tmp_path: Path) -> WorkerClient:
    """A target that is imported for as long as there is no file named `go`."""
    (tmp_path / "slow.py").write_text(dedent(SLOW))
    return WorkerClient(sys.executable, "slow:loss", {"loss_type": "grpo"}, cwd=tmp_path, start_timeout=60)


def test_a_start_need_not_be_waited_for(slow: WorkerClient, make_case: MakeCase, tmp_path: Path) -> None:
    """Whoever has something else to do asks from time to time; what needs the process waits for it."""
    assert not slow.is_starting
    slow.begin()
    slow.begin()
    assert slow.is_starting
    assert _appears(tmp_path / "pid")
    assert slow.is_starting
    (tmp_path / "go").touch()
    assert _holds(lambda: not slow.is_starting)
    assert slow.ask(make_case()).status == "ok"
    assert slow.pid == int((tmp_path / "pid").read_text())
    slow.close()


def test_a_start_is_given_up(slow: WorkerClient, ends: Ends, tmp_path: Path) -> None:
    """Closing does not wait for it."""
    slow.begin()
    assert _appears(tmp_path / "pid")
    slow.close()
    assert ends(int((tmp_path / "pid").read_text()))
    assert not slow.is_starting


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("nowhere:loss", "no module named 'nowhere' here"),
        ("leaving:loss", "leaving:loss does not start: its process ended with exit status 3"),
    ],
)
def test_a_failed_start_is_told_once_it_is_waited_for(target: str, words: str, tmp_path: Path) -> None:
    """Whatever it failed of."""
    (tmp_path / "leaving.py").write_text("import os\nos._exit(3)\n")
    client = WorkerClient(sys.executable, target, {"loss_type": "grpo"}, cwd=tmp_path)
    client.begin()
    assert _holds(lambda: not client.is_starting)
    with pytest.raises(TargetUnavailable, match=words):
        _ = client.facts


def test_a_start_without_end_is_not_waited_for(tmp_path: Path) -> None:
    """No longer than is allowed, from its beginning on."""
    (tmp_path / "slow.py").write_text(dedent(SLOW))
    client = WorkerClient(sys.executable, "slow:loss", cwd=tmp_path, start_timeout=3)
    began = time.monotonic()
    client.begin()
    assert _holds(lambda: not client.is_starting)
    with pytest.raises(TargetUnavailable, match="gave no answer within 3 s"):
        _ = client.facts
    assert time.monotonic() - began < 15


def _appears(file: Path) -> bool:
    return _holds(lambda: file.exists() and bool(file.read_text()))


def _holds(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 60
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True
