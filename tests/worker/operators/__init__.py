"""Operators to judge, compiled with the compiler that is here and kept from one run to the next."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

import torch

SOURCE = Path(__file__).with_name("operators.cpp")
CACHE = Path(__file__).parents[3] / ".cache" / "operators"
COMPILER = shutil.which("g++")


def built(source: Path = SOURCE) -> Path:
    """The library of a source."""
    assert COMPILER is not None
    home = Path(torch.__file__).parent
    flags = ["-std=c++20", "-O1", "-shared", "-fPIC", f"-isystem{home / 'include'}"]
    libraries = [f"-L{home / 'lib'}", "-lc10", "-ltorch_cpu"]
    key = hashlib.sha256("\0".join([source.read_text(), torch.__version__, *flags, *libraries]).encode())
    library = CACHE / f"{key.hexdigest()[:16]}.so"
    if not library.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        # Renamed when it is whole: another process may look for it meanwhile.
        unfinished = library.with_suffix(f".{os.getpid()}")
        subprocess.run([COMPILER, *flags, source, "-o", unfinished, *libraries], check=True)
        unfinished.rename(library)
    return library
