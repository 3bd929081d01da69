"""Whoever follows a page gets what it shows: commands are run, top to bottom, in a folder like the reader's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
import typer

from harness.cli import app
from tests.docs.pages import ROOT, Block, Command, Page, followed_pages
from tests.docs.session import Session
from tests.docs.shown import differences
from tests.docs.unfollowed import FRAGMENTS, NOT_FOLLOWED, reason

PAGES: Final = tuple(name for name in followed_pages() if any(reason(one) is None for one in Page(name).commands))
_OWN_CODE: Final = ("cases/", "harness/", "oracles/", "reports/")
COMMANDS: Final = tuple(command for name in followed_pages() for command in Page(name).commands)


@pytest.mark.parametrize("name", PAGES)
def test_a_page_does_what_it_says(name: str, tmp_path: Path) -> None:
    """Commands with output print it; those without end as they do where nothing is wrong with the command."""
    session = _session(Page(name), tmp_path)
    for step in Page(name).steps:
        if isinstance(step, Command):
            if reason(step) is None:
                _follow(session, step)
        elif step.language == "diff" and step.file:
            session.change(step)
        elif step.file:
            session.write(step)
        elif step.language == "python" and step.page not in FRAGMENTS:
            result = session.python(step.text)
            assert result.returncode == 0, f"{step}\n{result.stderr}"


def _session(page: Page, place: Path) -> Session:
    if page.name.startswith("examples/"):
        return Session.in_a_copy(page.path.parent, place)
    if page.name == "docs/ci.md":
        return Session.in_a_copy(ROOT / "examples" / "fork_ci", place)
    changes = any(isinstance(step, Block) and step.file.startswith(_OWN_CODE) for step in page.steps)
    return Session.in_a_changed_clone(place) if changes else Session.in_a_clone(place)


def _follow(session: Session, command: Command) -> None:
    result = session.run(command)
    if command.shown is not None:
        otherwise = differences(result.stdout, command.shown)
        if otherwise:
            pytest.fail(f"{command}\n{otherwise}\n{result.stderr}", pytrace=False)
    elif result.returncode not in (0, 1):
        # 1 is what the target did, not the command.
        pytest.fail(f"{command}\nexit code {result.returncode}\n{result.stdout}{result.stderr}", pytrace=False)


@pytest.mark.parametrize("command", COMMANDS, ids=str)
def test_a_command_is_one(command: Command) -> None:
    """Of lossgate: verb, arguments and options are taken by the command line. Of others: the program is known."""
    program, *arguments = command.words
    if Path(program).name == "lossgate":
        group: Any = typer.main.get_command(app)
        verb, *rest = arguments
        assert verb in group.commands
        group.commands[verb].make_context(verb, rest)
    else:
        assert _OTHERS[Path(program).name](arguments) if program in _OTHERS else (ROOT / program).exists(), command


def _is_target(arguments: list[str]) -> bool:
    return f"\n{arguments[0]}:" in (ROOT / "Makefile").read_text()


def _is_script(arguments: list[str]) -> bool:
    if arguments[0] == "-m":
        return arguments[1] == "pytest" or (ROOT / f"{arguments[1].replace('.', '/')}.py").exists()
    return arguments[0].endswith(".py")


def _installs(arguments: list[str]) -> bool:
    return arguments[0] == "install"


_OTHERS: Final[dict[str, Callable[[list[str]], bool]]] = {
    "make": _is_target,
    "python": _is_script,
    "pip": _installs,
    "pipx": _installs,
}


def test_what_is_not_followed_is_on_a_page() -> None:
    """A command that is excused from being run is there, and no longer excused when it is gone."""
    there = {(command.page, command.bare) for command in COMMANDS}
    excused = [(page, text) for page, texts in NOT_FOLLOWED.items() for text in texts]
    assert [one for one in excused if one not in there] == []
