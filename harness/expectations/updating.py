"""`--update-expectations`: what a run found, written into the configuration for a person to review."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.config import PYPROJECT, SECTION, Config
from harness.errors import UsageError
from harness.expectations.entry import Expect
from harness.expectations.findings import Seen
from harness.expectations.generating import WITNESSES, generated, is_ours
from harness.expectations.writing import rewritten, write
from reports.run import Run


@dataclass(frozen=True)
class Update:
    """What was done to a file: its generated entries, those without a reason, cells that can have no entry."""

    file: Path
    changed: bool
    entries: int
    without_reason: int
    others: int

    @property
    def sentences(self) -> Iterator[str]:
        """What to say of it."""
        entries = "1 generated entry" if self.entries == 1 else f"{self.entries} generated entries"
        yield f"{self.file}: {entries}, {'updated' if self.changed else 'nothing to change'}"
        if self.without_reason:
            yield f"{self.without_reason} without a reason: replace what begins with TODO in {self.file}"
        if self.others:
            yield f"{self.others} cells fail in another way than by diverging: that cannot be expected"


def update(run: Run, file: Path) -> Update:
    """Bring the generated entries of a file in line with a complete run; what a person wrote is left alone.

    Raises `UsageError` when the file cannot be read or written, or none can be added to how it has its entries.
    """
    section = SECTION if file.name == PYPROJECT else ()
    entries = Config.load(file).expect.entries if file.is_file() else ()
    text = file.read_bytes().decode() if file.is_file() else ""
    seen = Seen.of(run)
    wanted = generated(entries, seen)
    try:
        new = rewritten(text, entries, wanted, section)
    except ValueError as error:
        hint = "write each entry as a table that begins with [[expect]]"
        raise UsageError(f"cannot add entries to {file}: {error}", hint) from error
    if new != text:
        write(file, new)
    _keep_witnesses(run, file.parent, entries, wanted)
    return Update(
        file,
        changed=new != text,
        entries=len(wanted),
        without_reason=sum(entry.lacks_reason for entry in wanted),
        others=len(seen.others),
    )


def _keep_witnesses(run: Run, folder: Path, entries: Sequence[Expect], wanted: Sequence[Expect]) -> None:
    """Copy the witnesses of the run that generated entries name, and remove those that no entry names any more."""
    for witness in {Path(entry.witness) for entry in wanted}:
        if witness.parent == Path(WITNESSES) and not (folder / witness).exists():
            (folder / WITNESSES).mkdir(exist_ok=True)
            shutil.copyfile(run.path / "cases" / witness.name, folder / witness)
    named = {entry.witness for entry in (*wanted, *(one for one in entries if not is_ours(one)))}
    for gone in {entry.witness for entry in entries if is_ours(entry)} - named:
        if Path(gone).parent == Path(WITNESSES):
            (folder / gone).unlink(missing_ok=True)
