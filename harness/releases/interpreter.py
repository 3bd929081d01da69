"""What an interpreter has, asked of it without importing any of it."""

from __future__ import annotations

import functools
import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Self

from harness.outcome import TargetUnavailable
from harness.worker_process import find_python

# The current folder is not where a library is imported from.
_QUESTION: Final = """\
import sys
if sys.version_info < (3, 9):
    sys.exit("Python 3.9 or newer is needed, this is %d.%d" % sys.version_info[:2])
sys.path[:] = filter(None, sys.path)
import importlib.metadata, json, os, platform, sysconfig
sys.path[:] = [entry for entry in sys.path if entry != os.getcwd()]
versions = {}
for name in sys.argv[1:]:
    try:
        # What is left of a broken installation has none.
        versions[name] = importlib.metadata.version(name) or "0"
    except importlib.metadata.PackageNotFoundError:
        pass
tag = sysconfig.get_config_var("SOABI") or sys.implementation.cache_tag
if platform.machine() not in tag:
    tag += "-" + platform.machine()
print(json.dumps({"python": platform.python_version(), "tag": tag, "versions": versions}))
"""
_SECONDS: Final = 60.0


@dataclass(frozen=True)
class Interpreter:
    """A Python: its absolute path, its version, and the versions of some of what is installed in it.

    `tag` tells apart interpreters for which a package may have different files, such as
    `cpython-311-x86_64-linux-gnu`.
    """

    path: str
    python: str
    tag: str
    versions: Mapping[str, str]

    @classmethod
    def ask(cls, python: str, names: Sequence[str]) -> Self:
        """Ask for the installed versions of some distributions.

        Raises `TargetUnavailable` when the interpreter cannot be started, or is none.
        """
        try:
            path = find_python(python)
        except OSError as error:
            raise TargetUnavailable("interpreter", str(error)) from error
        try:
            answer = subprocess.run(
                [path, "-c", _QUESTION, *names],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=_SECONDS,
                check=True,
            )
            # What is printed on its start, by a sitecustomize say, comes before.
            facts = json.loads(answer.stdout.splitlines()[-1])
        except subprocess.CalledProcessError as error:
            said = (error.stderr.strip().splitlines() or [f"it ended with {error.returncode}"])[-1]
            raise TargetUnavailable(
                "interpreter", f"{python} cannot say what is installed in it ({said})"
            ) from None
        except (OSError, subprocess.TimeoutExpired, ValueError, IndexError) as error:
            raise TargetUnavailable(
                "interpreter", f"{python} cannot say what is installed in it ({error})"
            ) from error
        return cls(path, facts["python"], facts["tag"], MappingProxyType(facts["versions"]))


@functools.cache
def interpreter(python: str, names: tuple[str, ...]) -> Interpreter:
    """`Interpreter.ask`, once a process."""
    return Interpreter.ask(python, names)
