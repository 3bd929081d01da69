"""What a real bash completes, with the script that the command prints."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Final

import pytest

from cases.dtypes import DTYPES
from harness.cli import completing
from harness.cli.fault_names import FAULT_NAMES
from harness.faults.worker import FaultWorker
from harness.releases.libraries import LIBRARIES
from tests.cli.conftest import COMMAND, Lossgate

ASK: Final = """
eval "$(lossgate completion bash)"
complete -p lossgate
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
_lossgate_completion lossgate
printf '%s\\n' "${COMPREPLY[@]}"
"""


def completed(*words: str) -> list[str]:
    """What bash would put in place of the last word, which it has split at colons."""
    environment = {**os.environ, "PATH": f"{COMMAND.parent}{os.pathsep}{os.environ['PATH']}"}
    result = subprocess.run(
        ["bash", "--norc", "-c", ASK, "bash", "lossgate", *words],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    registered, *found = result.stdout.splitlines()
    assert registered == "complete -o default -F _lossgate_completion lossgate"
    return [one for one in found if one]


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["ide"], ["identify"]),
        (["run", "trl", "--loss-t"], ["--loss-type"]),
        (["run", "trl", "--loss-type", "dr"], ["dr_grpo"]),
        (["run", "trl", "--loss-type", "grpo,da"], ["grpo,dapo"]),
        (["run", "trl", "--dtype", "bf"], ["bfloat16"]),
        (["run", "trl", "--level", "seq"], ["sequence"]),
        (["run", "trl", "--format", "mark"], ["markdown"]),
        (["run", "op"], ["openrlhf"]),
        (["run", "fault", ":", "no_cl"], ["no_clip"]),
        (["run", "trl", "fault", ":", "kl_si"], ["kl_sign"]),
        (["run", "my_pkg.losses", ":", "no_cl"], []),
        (["faults", "--only", "no_clip,kl_si"], ["no_clip,kl_sign"]),
        (["compare", "ver"], ["verl"]),
        (["matrix", "uns"], ["unsloth"]),
    ],
)
def test_words(words: list[str], found: list[str]) -> None:
    """Verbs, options, loss types, dtypes, levels, formats, libraries and faults."""
    assert completed(*words) == found


def test_faults_behind_the_colon() -> None:
    """All of them where nothing is typed yet, without what stands before the colon."""
    assert completed("run", "fault", ":") == list(FAULT_NAMES)


def test_the_names_are_those_there_are() -> None:
    """What is written down for the sake of speed is what the targets, libraries and dtypes are called."""
    with FaultWorker(sys.executable) as worker:
        assert set(FAULT_NAMES) == set(worker.names()), (
            "make harness/cli/fault_names.py what `lossgate faults` lists"
        )
    assert set(completing.DTYPES) == set(DTYPES)
    assert set(completing.LIBRARIES) == set(LIBRARIES)


def test_it_is_quick() -> None:
    """It imports nothing that takes long: a person waits at each key."""
    environment = {
        **os.environ,
        "COMP_WORDS": "lossgate\nrun\nfault\n:\nno",
        "COMP_CWORD": "4",
        "_LOSSGATE_COMPLETE": "complete_bash",
        "PYTHONPROFILEIMPORTTIME": "1",
    }
    ran = subprocess.run([COMMAND], env=environment, capture_output=True, text=True, check=True)
    imported = {line.rpartition("|")[2].strip() for line in ran.stderr.splitlines()}
    assert "harness.cli.completing" in imported
    assert not imported & {"numpy", "torch", "hypothesis", "cases.case", "harness.engine"}


@pytest.mark.parametrize(("shell", "word"), [("zsh", "compdef"), ("fish", "complete --command lossgate")])
def test_other_shells(lossgate: Lossgate, shell: str, word: str) -> None:
    """Their scripts are printed, too."""
    result = lossgate("completion", shell)
    assert (result.returncode, word in result.stdout) == (0, True)


def test_an_unknown_shell_is_wrong_usage(lossgate: Lossgate) -> None:
    """One sentence, and exit code 2."""
    result = lossgate("completion", "cmd")
    assert result.returncode == 2
    assert "'cmd' is not one of" in result.stderr
