"""pip, which finds and fetches a distribution; what stops it becomes one sentence."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from bisect import bisect
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from packaging.version import InvalidVersion, Version

from harness.outcome import TargetUnavailable
from harness.releases.interpreter import Interpreter

# Against what a user's settings say of environments, and what would change what pip prints.
_SETTINGS: Final = {
    "PIP_CONSTRAINT": os.devnull,
    "PIP_USER": "0",
    "PIP_REQUIRE_VIRTUALENV": "0",
    "PIP_NO_INPUT": "1",
    "PIP_NO_COLOR": "1",
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "PIP_ROOT_USER_ACTION": "ignore",
    # The current folder may hold modules with the names of pip's own.
    "PYTHONSAFEPATH": "1",
}
_UNSET: Final = ("PIP_PREFIX", "PIP_ROOT")

_KNOWN_VERSIONS: Final = re.compile(r"\(from versions: ([^)]*)\)")
# An index may say it of a version, else the wheel does.
_PYTHON_BY_INDEX: Final = re.compile(r"(\S+) Requires-Python ([^;\n]+)")
_PYTHON_BY_WHEEL: Final = re.compile(r"requires a different Python: \S+ not in '([^']+)'")
_NO_CONNECTION: Final = re.compile(r"connection broken by '(.*)': /")
_AVAILABLE: Final = re.compile(r"^Available versions: (.*)$", re.MULTILINE)
_NEAREST: Final = 3


def install(distribution: str, version: str, folder: Path, over: Interpreter) -> None:
    """Install the wheel of a distribution that suits an interpreter into a folder, without what it depends on.

    Raises `TargetUnavailable`: of kind "unknown" when there is no such version, else "not_installed".
    """
    arguments = ("install", "--no-deps", "--only-binary", ":all:", "--target", str(folder), "--quiet")
    ended = _run(over, *arguments, f"{distribution}=={version}")
    if ended.returncode:
        raise _failure(distribution, version, ended.stdout, over)


def versions(distribution: str, over: Interpreter) -> list[Version]:
    """The versions that there are wheels of for an interpreter: final ones that nobody has yanked.

    Raises `TargetUnavailable`, of kind "not_installed", when pip cannot say.
    """
    ended = _run(over, "index", "versions", "--only-binary", ":all:", distribution)
    listed = _AVAILABLE.search(ended.stdout)
    if ended.returncode or listed is None:
        what, hint = _unreached(distribution, ended.stdout, over) or (_last_words(ended.stdout), "")
        raise TargetUnavailable("not_installed", f"the releases of {distribution} cannot be listed: {what}", hint)
    # A user's settings may have pip list others, too.
    return [one for one in _parsed(listed[1].split(", ")) if not one.is_prerelease]


def _run(over: Interpreter, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name not in _UNSET}
    return subprocess.run(
        [*_pip(over), *arguments],
        env={**environment, **_SETTINGS},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )


def _pip(over: Interpreter) -> list[str]:
    """pip, running in the interpreter it looks for wheels for: lossgate's own pip, or else the interpreter's."""
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip", "--python", over.path]
    return [over.path, "-m", "pip"]


def _failure(distribution: str, version: str, output: str, over: Interpreter) -> TargetUnavailable:
    """What pip says, in one sentence with what to do about it."""
    name = f"{distribution} {version}"
    by_wheel = _PYTHON_BY_WHEEL.search(output)
    by_index = {found[1]: found[2].strip() for found in _PYTHON_BY_INDEX.finditer(output)}
    needed = by_wheel[1] if by_wheel is not None else by_index.get(version)
    if needed is not None:
        return TargetUnavailable(
            "not_installed",
            f"{name} needs Python {needed}; the one at {over.path} is {over.python}",
            "--python names another interpreter",
        )
    known = _KNOWN_VERSIONS.search(output)
    if known is not None and known[1] != "none":
        nearest = ", ".join(_nearest(version, known[1].split(", ")))
        return TargetUnavailable("unknown", f"there is no {name}; the nearest are {nearest}")
    unreached = _unreached(distribution, output, over)
    if unreached is not None:
        what, hint = unreached
        return TargetUnavailable("not_installed", f"{name} cannot be fetched: {what}", hint)
    said = _last_words(output)
    return TargetUnavailable("not_installed", f"{name} cannot be fetched; {said}", details=output)


def _unreached(distribution: str, output: str, over: Interpreter) -> tuple[str, str] | None:
    """Why pip got nothing from an index, and what to do; None where it did."""
    if "No module named pip" in output:
        return f"there is no pip, neither with lossgate nor in {over.path}", f"{sys.executable} -m ensurepip"
    connection = _NO_CONNECTION.search(output)
    if connection is not None:
        reason = re.sub(r"['\"]\)*$", "", connection[1].rpartition(": ")[2])
        what = f"pip reaches no package index ({reason})"
        return what, "where there is a network, lossgate fetch fills the cache ahead of time"
    if _KNOWN_VERSIONS.search(output) is not None or "No matching distribution found" in output:
        what = f"pip finds no release of {distribution} at all"
        return what, "look at pip's settings (pip config list), and at the network"
    return None


def _last_words(output: str) -> str:
    errors = [line.removeprefix("ERROR: ") for line in output.splitlines() if line.startswith("ERROR: ")]
    return f"pip says: {errors[-1] if errors else (output.strip().splitlines() or ['nothing'])[-1]}"


def _nearest(version: str, known: Sequence[str]) -> list[str]:
    """The known versions around one that is not known, in order."""
    versions = sorted(_parsed(known))
    place = bisect(versions, Version(version))
    first = max(0, min(place - _NEAREST + 1, len(versions) - _NEAREST))
    return [str(near) for near in versions[first : first + _NEAREST]]


def _parsed(known: Sequence[str]) -> list[Version]:
    versions = []
    for text in known:
        try:
            versions.append(Version(text))
        except InvalidVersion:
            continue
    return versions
