"""Files that a run is rendered into, beside its folder."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from harness.errors import UsageError
from reports.formats import FORMATS, ReportFormat
from reports.run import Run
from reports.store import why


@dataclass(frozen=True)
class ReportFile:
    """A file and the format that a run is written there in."""

    path: Path
    format: ReportFormat

    @classmethod
    def at(cls, path: Path, form: ReportFormat) -> Self:
        """The file, which need not be there, nor its folder.

        Raises `UsageError` when it cannot be written; nothing is left behind by trying.
        """
        refused = f"cannot write {path}"
        try:
            if path.is_dir():
                raise UsageError(f"{refused}: it is a folder; give a file")
            if path.exists():
                # A device or a pipe is written into, a file is replaced.
                with path.open("ab"):
                    pass
            folder = next(one for one in path.absolute().parents if one.exists())
            if not path.exists() or path.is_file():
                with tempfile.TemporaryFile(dir=folder):
                    pass
        except OSError as error:
            raise UsageError(f"{refused}: {why(error)}; give a path that can be written") from error
        return cls(path, form)

    def write(self, run: Run) -> None:
        """Render the run, finished or not; the file appears whole or not at all.

        Raises `UsageError` when it cannot be written after all.
        """
        text = FORMATS[self.format](run).encode()
        try:
            if self.path.exists() and not self.path.is_file():
                self.path.write_bytes(text)
            else:
                _replace(self.path.resolve(), text)
        except OSError as error:
            raise UsageError(
                f"cannot write {self.path}: {why(error)}",
                f"the run is kept: lossgate report {run.path} --format {self.format} --output FILE",
            ) from error


def distinct(files: Iterable[ReportFile]) -> tuple[ReportFile, ...]:
    """The files. Raises `UsageError` when two are one, which would hold the last alone."""
    by_path: dict[Path, ReportFile] = {}
    for file in files:
        other = by_path.setdefault(file.path.resolve(), file)
        if other is not file:
            raise UsageError(f"--{other.format} and --{file.format} name one file, {file.path}; give two")
    return tuple(by_path.values())


def _replace(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    waiting = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        waiting.write_bytes(content)
        os.replace(waiting, path)
    finally:
        waiting.unlink(missing_ok=True)
