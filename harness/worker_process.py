"""The process a target runs in: started, talked to within a deadline, and ended with all it has started."""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import harness.worker
from harness import leftovers
from harness.worker import protocol
from harness.worker_output import PrintedTooMuch, WorkerOutput

WORKER: Final = Path(harness.worker.__file__).parent
"""The folder that is handed over, by path."""

# The folder becomes a package of a name of its own, so that nothing of ours is on sys.path, where '' stays
# first and the target's modules are found. It must parse on every Python, to say that one is too old.
BOOTSTRAP: Final = """\
import sys
if sys.version_info < (3, 9):
    sys.exit("Python 3.9 or newer is needed, this is %d.%d" % sys.version_info[:2])
import importlib.util
path, read_fd, write_fd = sys.argv[1:]
del sys.argv[1:]
spec = importlib.util.spec_from_file_location(
    "lossgate_worker", path + "/__init__.py", submodule_search_locations=[path]
)
sys.modules[spec.name] = importlib.util.module_from_spec(spec)
importlib.import_module(spec.name + ".main").main(int(read_fd), int(write_fd))
"""

ENVIRONMENT: Final = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "TRANSFORMERS_VERBOSITY": "error",
    "WANDB_MODE": "disabled",
    "PYTHONDONTWRITEBYTECODE": "1",
    "OMP_NUM_THREADS": "1",
}

ORDINARY_PIPE: Final = 2**16
"""What a pipe holds unread where it cannot be asked, or a little more."""

_WIDE_PIPE: Final = 2**20

_LOOK_EVERY: Final = 0.1
_TIME_TO_END: Final = 2.0


class WorkerDied(Exception):
    """The process is gone, or its end of a pipe is."""


FAILURES: Final = (WorkerDied, TimeoutError, PrintedTooMuch, protocol.ProtocolError)
"""What comes instead of an answer."""


class WorkerProcess:
    """One process running `harness/worker/` in some interpreter.

    `output` is what it prints; `holds` is how many bytes either pipe holds unread.

    `path` holds folders whose packages come before the interpreter's own.

    Raises `OSError` when the interpreter cannot be started.
    """

    def __init__(self, python: str, cwd: Path | None, path: Sequence[Path] = ()) -> None:
        self._mark = leftovers.new_mark()
        self.output = WorkerOutput()
        child_reads, self._write_fd = os.pipe()
        self._read_fd, child_writes = os.pipe()
        # What is written ahead must lie somewhere, and so must the answers.
        self.holds = min(_widened(self._write_fd), _widened(self._read_fd))
        os.set_blocking(self._write_fd, False)
        self._readable, self._writable = select.poll(), select.poll()
        self._readable.register(self._read_fd, select.POLLIN)
        self._writable.register(self._write_fd, select.POLLOUT)
        self._left_over = bytearray()
        environment = {**os.environ, **ENVIRONMENT, leftovers.VARIABLE: self._mark}
        # It would take the current directory, where a user's own target lies, off the path.
        environment.pop("PYTHONSAFEPATH", None)
        if path:
            before = [str(folder) for folder in path]
            environment["PYTHONPATH"] = os.pathsep.join([*before, environment.get("PYTHONPATH", "")]).rstrip(
                os.pathsep
            )
        try:
            self._process = subprocess.Popen(
                [python, "-c", BOOTSTRAP, str(WORKER), str(child_reads), str(child_writes)],
                stdin=subprocess.DEVNULL,
                stdout=self.output.fileno(),
                stderr=self.output.fileno(),
                cwd=cwd,
                env=environment,
                pass_fds=(child_reads, child_writes),
                start_new_session=True,
            )
        except BaseException:
            self._close_files()
            raise
        finally:
            os.close(child_reads)
            os.close(child_writes)

    @property
    def pid(self) -> int:
        """The process, which leads a group of its own."""
        return self._process.pid

    def send(self, data: bytes, deadline: float) -> None:
        """Write a message.

        Raises `WorkerDied` when nobody can read it any more, `TimeoutError` when nobody does by `deadline`,
        `PrintedTooMuch`.
        """

        def write(part: memoryview) -> int:
            try:
                return os.write(self._write_fd, part)
            except BlockingIOError:
                self._wait(self._writable, deadline)
                return 0
            except BrokenPipeError:
                raise WorkerDied from None

        protocol.write_all(write, data)

    @property
    def has_written(self) -> bool:
        """Whether a message, or the beginning of one, lies ready."""
        return bool(self._left_over) or bool(self._readable.poll(0))

    def receive(self, deadline: float) -> protocol.Message:
        """Read a message.

        Raises `WorkerDied` when there is none to come, `TimeoutError` when there is none by `deadline`,
        `PrintedTooMuch`, and `protocol.ProtocolError` when what comes is no message.
        """

        def read(size: int) -> bytes:
            self._wait(self._readable, deadline)
            data = os.read(self._read_fd, size)
            if not data:
                raise WorkerDied
            return data

        message = protocol.read_message(read, self._left_over)
        assert message is not None, "the end is an exception here"
        return message

    def _wait(self, poll: select.poll, deadline: float) -> None:
        while True:
            left = deadline - time.monotonic()
            if poll.poll(1000 * max(0.0, min(left, _LOOK_EVERY))):
                return
            # A process that the target forked may hold the pipe open after the worker's own end; what was
            # written before that end is still read.
            if self._has_ended() and not poll.poll(0):
                raise WorkerDied
            self.output.check_size()
            if left <= 0:
                raise TimeoutError

    def _has_ended(self) -> bool:
        """Whether it has ended; it is not reaped yet, so that its group's number stays its own."""
        if not hasattr(os, "waitid"):
            return self._process.poll() is not None
        ended = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        return ended is not None

    def end(self, failure: Exception, timeout: float) -> tuple[str, str]:
        """End it after one of `FAILURES` to answer: what happened to it, in words, and what it printed last."""
        if isinstance(failure, TimeoutError):
            self._print_stack()
            sentence = f"gave no answer within {timeout:g} s and was killed"
        elif isinstance(failure, PrintedTooMuch):
            sentence = f"{failure} and was killed"
        elif isinstance(failure, protocol.ProtocolError):
            sentence = f"sent what is no answer and was killed ({failure})"
        elif self._wait_for_end():
            sentence = ""
        else:
            sentence = "closed its connection and was killed"
        printed = self.output.end()
        ended = self.kill()
        return sentence or ended, printed

    def _print_stack(self) -> None:
        """Have it print where it is, as far as it still can."""
        self._process.send_signal(signal.SIGUSR1)
        time.sleep(_LOOK_EVERY)

    def _wait_for_end(self) -> bool:
        """Give it time to end by itself; whether it did."""
        deadline = time.monotonic() + _TIME_TO_END
        while not self._has_ended():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.002)
        return True

    def ask_to_end(self) -> None:
        """Have it end by itself, as far as it does so soon."""
        try:
            self.send(protocol.pack({"request": "close"}), time.monotonic())
        except (WorkerDied, TimeoutError):
            return
        self._wait_for_end()

    def kill(self) -> str:
        """End it and all it has started; how it ended, in words."""
        if not self.output.closed:
            leftovers.end_marked(self._mark, leader=self.pid)
            # Where it is reaped already, or a zombie alone is left, there may be no group any more.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)
            self._process.wait()
            self._close_files()
        code = self._process.returncode
        if code == protocol.EXIT_DISCONNECTED:
            return "closed the files that it was to answer on, and ended"
        if code >= 0:
            return f"ended with exit status {code}"
        name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
        about = "Killed, perhaps for want of memory" if name == "SIGKILL" else signal.strsignal(-code)
        return f"died of {name} ({about})"

    def _close_files(self) -> None:
        os.close(self._write_fd)
        os.close(self._read_fd)
        self.output.close()


def find_python(python: str) -> str:
    """The absolute path of an interpreter given by name or path; links are kept, a venv is known by them.

    Raises `FileNotFoundError` or `PermissionError` with a sentence that says what is there instead.
    """
    if os.sep not in python:
        found = shutil.which(python)
        if found is None:
            raise FileNotFoundError(f"there is no {python} on the PATH")
        return os.path.abspath(found)
    path = Path(os.path.abspath(python))
    if path.is_dir():
        raise FileNotFoundError(f"{python} is a folder; the interpreter in it may be {path / 'bin' / 'python'}")
    if not path.exists():
        raise FileNotFoundError(f"there is no interpreter at {python}")
    if not os.access(path, os.X_OK):
        raise PermissionError(f"{python} cannot be executed")
    return str(path)


def _widened(pipe: int) -> int:
    """How many bytes a pipe holds, once it is made as wide as is allowed."""
    # Only Linux can; a user may have too many wide pipes already.
    with contextlib.suppress(AttributeError, OSError):
        return fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _WIDE_PIPE)
    return ORDINARY_PIPE
