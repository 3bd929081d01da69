"""What a target's process prints: kept in a file without a name, of which the end is read."""

from __future__ import annotations

import fcntl
import os
import tempfile
from typing import Final

_SHOWN: Final = 2000
_READ: Final = 2**16
_LONG: Final = 2**20
_MOST: Final = 2**26


class PrintedTooMuch(Exception):
    """What a process prints would fill the disk; the text continues a sentence that begins with the target."""


class WorkerOutput:
    """An open file that a process prints to, and that can be emptied meanwhile."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 # open as long as the process
        # The process appends, so that it goes on at the beginning where the file was emptied.
        fcntl.fcntl(self._file, fcntl.F_SETFL, fcntl.fcntl(self._file, fcntl.F_GETFL) | os.O_APPEND)

    def fileno(self) -> int:
        """The file's descriptor, which is handed to the process."""
        return self._file.fileno()

    def check_size(self) -> None:
        """Raises `PrintedTooMuch` where there is more than a disk should be filled with."""
        if self._size() > _MOST:
            raise PrintedTooMuch(f"printed more than {_MOST // 2**20} MB")

    def _size(self) -> int:
        return os.fstat(self._file.fileno()).st_size

    def forget(self) -> None:
        """Drop what was printed so far."""
        if self._size():
            os.ftruncate(self._file.fileno(), 0)

    @property
    def is_long(self) -> bool:
        """Whether it should be emptied before more is asked."""
        return self._size() > _LONG

    def end(self) -> str:
        """The end of what was printed since it was last emptied."""
        return self.part(0, self._size())

    def part(self, start: int, stop: int) -> str:
        """What was printed between two positions, of which the end."""
        if stop <= start:
            return ""
        first = max(start, stop - _READ)
        data = os.pread(self._file.fileno(), stop - first, first)
        lines = data.decode(errors="replace").splitlines()
        # Python's crash report ends with a list of every extension module, which would push out the rest.
        text = "\n".join(line for line in lines if not line.startswith("Extension modules:")).strip()
        return text if len(text) <= _SHOWN else "... " + text[-_SHOWN:]

    def close(self) -> None:
        """Close the file, which is then gone."""
        self._file.close()

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._file.closed
