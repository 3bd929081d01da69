"""`lossgate completion`: the script by which a shell completes the command."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final

import typer

EXAMPLE: Final = "Example: lossgate completion bash > ~/.local/share/bash-completion/completions/lossgate"

# typer's own script asks nothing of use behind a colon, which ends a word in bash.
_BASH: Final = r"""
_lossgate_completion() {
    local IFS=$'\n' at=$COMP_CWORD
    local words=("${COMP_WORDS[@]}")
    if [[ ${words[at]} == : ]]; then
        words+=("")
        at=$((at + 1))
    fi
    COMPREPLY=($(COMP_WORDS="${words[*]}" COMP_CWORD=$at _LOSSGATE_COMPLETE=complete_bash "$1" 2> /dev/null))
}

complete -o default -F _lossgate_completion lossgate
"""


class Shell(StrEnum):
    """Shells that complete."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(shell: Annotated[Shell, typer.Argument(help="Whose script.")]) -> None:
    """Print the script by which a shell completes verbs, options, and what they take.

    Exit code: 0, or 2 for wrong usage.
    """
    from typer.completion import get_completion_script  # type: ignore[attr-defined]  # typer offers it nowhere else

    if shell is Shell.BASH:
        typer.echo(_BASH.strip())
    else:
        typer.echo(get_completion_script(prog_name="lossgate", complete_var="_LOSSGATE_COMPLETE", shell=shell))
