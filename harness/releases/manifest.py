"""Is what lies in a folder what was put there? The SHA-256 of every file, in a file beside them."""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
from collections.abc import Iterator
from importlib.metadata import PathDistribution
from pathlib import Path
from typing import Final

MANIFEST: Final = "lossgate.sha256"
"""Lines of `sha256sum`."""


class DamagedError(Exception):
    """A folder does not hold what it should; the text says where it first differs."""


def check_record(folder: Path) -> None:
    """Hold a distribution that pip has just installed into a folder against its own RECORD.

    What RECORD does not list, such as scripts, is removed.

    Raises `DamagedError` when a file is missing or has another content.
    """
    dist_info = next(folder.glob("*.dist-info"), None)
    listed = PathDistribution(dist_info).files if dist_info is not None else None
    if not listed:
        raise DamagedError("it has no RECORD of its files")
    kept = set()
    for file in listed:
        # Scripts are listed where they would lie beside a whole environment.
        if ".." in file.parts:
            continue
        kept.add(file.parts[0])
        if file.hash is None:
            continue
        digest = hashlib.new(file.hash.mode, _content(folder, str(file))).digest()
        if base64.urlsafe_b64encode(digest).rstrip(b"=").decode() != file.hash.value:
            raise DamagedError(f"{file} is not what its RECORD says")
    for entry in folder.iterdir():
        if entry.name not in kept:
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()


def seal(folder: Path) -> None:
    """Write down what a folder holds."""
    lines = [f"{_digest(folder, name)}  {name}\n" for name in sorted(_names(folder))]
    (folder / MANIFEST).write_text("".join(lines), encoding="utf-8")


def check_seal(folder: Path) -> None:
    """Raises `DamagedError` when a folder does not hold exactly what it held when it was sealed."""
    sealed = {}
    for line in _content(folder, MANIFEST).decode(errors="replace").splitlines():
        digest, _, name = line.partition("  ")
        sealed[name] = digest
    for name in _names(folder):
        if name not in sealed:
            raise DamagedError(f"{name} was added")
    for name, digest in sealed.items():
        if _digest(folder, name) != digest:
            raise DamagedError(f"{name} was changed")


def _names(folder: Path) -> Iterator[str]:
    for place, _, names in os.walk(folder):
        for name in names:
            relative = os.path.relpath(os.path.join(place, name), folder)
            if relative != MANIFEST:
                yield relative


def _digest(folder: Path, name: str) -> str:
    return hashlib.sha256(_content(folder, name)).hexdigest()


def _content(folder: Path, name: str) -> bytes:
    try:
        return (folder / name).read_bytes()
    except OSError as error:
        raise DamagedError(f"{name} cannot be read ({error.strerror})") from error
