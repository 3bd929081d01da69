"""`lossgate bisect`: the release or the commit where a cell changed."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.cli.conftest import Lossgate

LOSS = """\
import torch


def loss(logps, old_logps, advantages, mask, epsilon_low, epsilon_high):
    old_logps = logps.detach() if old_logps is None else old_logps
    advantages = advantages if advantages.dim() == 2 else advantages.unsqueeze(1)
    ratio = torch.exp(logps - old_logps)
    clipped = torch.clamp(ratio, 1 - epsilon_low, 1 + epsilon_high)
    terms = torch.where(mask, -torch.min(ratio * advantages, clipped * advantages), 0.0)
    lengths = mask.sum(1)
    return {aggregated}
"""
RIGHT = LOSS.format(aggregated="(terms.sum(1) / lengths.clamp(min=1)).mean()")
WRONG = LOSS.format(aggregated="terms.sum() / lengths.sum().clamp(min=1)")
MOVING = RIGHT.replace(".mean()", ".mean() * (1 + torch.rand(()))")
BROKEN = "import no_such_module\n"
CELL = ("--cell", "grpo", "--examples", "1")

MakeRepository = Callable[[Sequence[str]], Path]


def git(repository: Path, *arguments: str) -> str:
    """What git prints, run in a repository by somebody of no name."""
    identity = ("-c", "user.name=Nobody", "-c", "user.email=nobody@example.org", "-c", "commit.gpgsign=false")
    ended = subprocess.run(
        ["git", *identity, *arguments], cwd=repository, capture_output=True, text=True, check=True
    )
    return ended.stdout


@pytest.fixture
def repository(folder: Path) -> MakeRepository:
    """Makes a repository of one commit a content of `src/small_pkg/losses.py`; tags are c0, c1, ..."""

    def make(contents: Sequence[str]) -> Path:
        place = folder / "checkout"
        module = place / "src" / "small_pkg" / "losses.py"
        module.parent.mkdir(parents=True)
        (module.parent / "__init__.py").touch()
        git(place, "init", "-q")
        for number, content in enumerate(contents):
            module.write_text(f"{content}\n# {number}\n")
            git(place, "add", "-A")
            git(place, "commit", "-q", "-m", f"commit {number}")
            git(place, "tag", f"c{number}")
        return place

    return make


def short(place: Path, tag: str) -> str:
    """A commit as the answer names it."""
    return git(place, "rev-parse", tag)[:10]


def test_releases_of_a_library(lossgate: Lossgate, folder: Path) -> None:
    """dapo's window of tokens was put right between 1.9.0 and 1.9.2; every release judged has a run of its own."""
    result = lossgate(
        "bisect", "trl", "0.22.2..", *CELL[:1], "dapo,token,0,float32", "--offline", "--out", "a", "-q"
    )
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[0] == "trl 0.22.2..  dapo token beta 0 float32: 5 releases, 4 judged"
    assert "last divergent 1.9.0, first clean 1.9.2" in lines
    signature = lines[lines.index("last divergent 1.9.0, first clean 1.9.2") + 1]
    assert signature.startswith("  1.9.0: loss and gradient x ")
    command = lines[-1].strip().removeprefix("look closer: lossgate ").split()
    assert lossgate(*command, "--offline").returncode == 1
    assert sorted(path.name for path in (folder / "a").iterdir()) == [
        "trl-0.22.2",
        "trl-1.14.2",
        "trl-1.9.0",
        "trl-1.9.2",
    ]


def test_commits_of_a_checkout(lossgate: Lossgate, repository: MakeRepository, folder: Path) -> None:
    """The first wrong commit, in JSON; those that do not load are skipped, and the checkout is as it was."""
    place = repository([RIGHT, RIGHT, RIGHT, BROKEN, WRONG, WRONG, WRONG, WRONG, WRONG])
    # What somebody is at work on, and what a hook of theirs would do.
    (place / "src" / "small_pkg" / "losses.py").write_text("unfinished(")
    (place / ".git" / "hooks" / "post-checkout").write_text(f"#!/bin/sh\ntouch {folder}/hooked\n")
    (place / ".git" / "hooks" / "post-checkout").chmod(0o755)
    before = (
        git(place, "status", "--porcelain", "--branch"),
        git(place, "worktree", "list"),
        git(place, "stash", "list"),
    )
    arguments = ("bisect", "small_pkg.losses:loss", "c0..c8", "--git", place, *CELL, "--format", "json", "-q")
    result = lossgate(*arguments, "--out", "a")
    assert result.returncode == 0, result.stderr
    answer = json.loads(result.stdout)
    middle, changed = short(place, "c3"), short(place, "c4")
    assert answer["answer"] == (
        f"last clean {short(place, 'c2')}, first divergent {changed}; "
        f"the first may be it, which could not be judged: {middle}"
    )
    assert answer["skipped"] == [middle]
    assert (answer["kind"], answer["candidates"]) == ("commit", 9)
    assert sum(one["state"] != "skipped" for one in answer["judged"]) <= 5
    assert answer["after"]["cell"]["signature"] == "computes bnpo"
    after = (
        git(place, "status", "--porcelain", "--branch"),
        git(place, "worktree", "list"),
        git(place, "stash", "list"),
    )
    assert after == before
    assert (place / "src" / "small_pkg" / "losses.py").read_text() == "unfinished("
    assert not (folder / "hooked").exists()


def test_no_answer(lossgate: Lossgate, repository: MakeRepository) -> None:
    """An end whose answers to one case differ: one sentence, and the exit code of what was not compared."""
    place = repository([RIGHT, MOVING])
    result = lossgate("bisect", "small_pkg.losses:loss", "c0..c1", "--git", place, *CELL, "-q")
    assert result.returncode == 4, result.stderr
    assert f"no answer: {short(place, 'c1')} is nondeterministic in this cell" in result.stdout


def test_what_is_installed_is_not_taken_for_a_commit(lossgate: Lossgate, repository: MakeRepository) -> None:
    """Commits that do not hold the module are skipped, though one of that name could be imported."""
    place = repository([RIGHT, WRONG])
    elsewhere = str(place / "src")
    result = lossgate("bisect", "json:loads", "c0..c1", "--git", place, *CELL, "-q", PYTHONPATH=elsewhere)
    assert result.returncode == 4
    assert "it cannot be judged: it has no json" in result.stdout


USAGE = {
    "a cell": (("trl", "1.9.0..1.9.2", "--cell", "dapo,,0"), "such as dapo,token,0,float32"),
    "a loss": (("trl", "1.9.0..1.9.2", "--cell", "dappo"), "did you mean 'dapo'?"),
    "a library": (("trll", "1.9.0..1.9.2", "--cell", "dapo"), "did you mean 'trl'?"),
    "a range": (("trl", "1.9.0", "--cell", "dapo"), "takes A..B, both in it"),
    "reversed": (("trl", "1.9.2..1.9.0", "--cell", "dapo"), "did you mean 1.9.0..1.9.2?"),
    "reversed commits": (("a:b", "c1..c0", "--git", "checkout", "--cell", "grpo"), "did you mean c0..c1?"),
    "a commit": (("a:b", "c0..cc1", "--git", "checkout", "--cell", "grpo"), "did you mean 'c1'?"),
    "a checkout": (("a:b", "c0..c1", "--git", "..", "--cell", "grpo"), ".. is no git checkout"),
    "a release of a checkout": (
        ("trl==1.9.0", "c0..c1", "--git", "checkout", "--cell", "grpo"),
        "module:function",
    ),
}


@pytest.mark.parametrize("wrong", USAGE)
def test_wrong_usage(wrong: str, lossgate: Lossgate, repository: MakeRepository, folder: Path) -> None:
    """One sentence that says what is taken, exit code 2, and no folder left."""
    repository([RIGHT, WRONG])
    arguments, sentence = USAGE[wrong]
    result = lossgate("bisect", *arguments, "--offline", GIT_CEILING_DIRECTORIES=os.fspath(folder.parent))
    assert result.returncode == 2, result.stdout
    assert sentence in result.stderr
    assert "Traceback" not in result.stderr
    assert not (folder / "lossgate-runs").exists()
