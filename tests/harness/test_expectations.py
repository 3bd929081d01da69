"""Expectations: precise, visible, and never silently wrong."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path

import pytest

from cases.case import Case
from harness.config import Config
from harness.errors import UsageError
from harness.expectations.entry import Expectations, Subject
from harness.toml_place import statement
from reports.records import Cell

ROOT = Path(__file__).parents[2]
CELL = Cell("trl 1.16.0", "logps", "sapo", "token", 0.04, "float64", "cpu")
TRL = Subject("trl", "trl 1.16.0", "1.16.0")


def loaded(tmp_path: Path, text: str) -> Expectations:
    path = tmp_path / "lossgate.toml"
    path.write_text(text)
    return Config.load(path).expect


@pytest.mark.parametrize(
    ("keys", "matches"),
    [
        ("", True),
        ('loss_type = ["dapo", "sapo"]', True),
        ('loss_type = "dapo"', False),
        ("beta = 0.04", True),
        ("beta = 0", False),
        ('level = "sequence"', False),
        ('dtype = ["float32"]', False),
        ('region = "holes"', True),
        ('region = "square"', False),
    ],
)
def test_an_entry_covers_what_it_names(keys: str, matches: bool, tmp_path: Path) -> None:
    """Every key narrows; what is left out matches all; a region narrows to its cases."""
    expect = loaded(tmp_path, f'[[expect]]\ntarget = "trl"\n{keys}\nreason = "because"\n').about(TRL)
    assert (expect.find(CELL, ("holes",)) is not None) is matches


@pytest.mark.parametrize(
    ("keys", "subject", "matches"),
    [
        ('target = "trl"', TRL, True),
        ('target = "trl 1.16.0"', TRL, True),
        ('target = "trl 1.16.0"', Subject("trl", "trl 1.16.0 (trl)", "1.16.0"), True),
        ('target = "trl 1.16.0"', Subject("trl", "trl 1.16.0rc1", "1.16.0rc1"), False),
        ('target = "trl 1.15.0"', TRL, False),
        ('target = "tr"', TRL, False),
        ('target = "trl==1.9.0"', Subject("trl==1.9.0", "trl 1.9.0", "1.9.0"), True),
        ('target = "fork"', Subject("fork", "fork (trl 1.16.0)", "1.16.0"), True),
        ('target = "trl"', Subject("fork", "fork (trl 1.16.0)", "1.16.0"), False),
        ('target = "trl"\nversion = ">=1.9,<2"', TRL, True),
        ('target = "trl"\nversion = "<1.16"', TRL, False),
        ('target = "trl"\nversion = ">=1.16"', Subject("trl", "trl 1.17.0.dev0", "1.17.0.dev0"), True),
        ('target = "mine:loss"\nversion = ">=1"', Subject("mine:loss", "mine:loss"), False),
    ],
)
def test_a_target_is_meant_by_its_name_and_version(
    keys: str, subject: Subject, matches: bool, tmp_path: Path
) -> None:
    """The word of the command line, the label or its beginning; a range takes development versions, too."""
    assert bool(loaded(tmp_path, f'[[expect]]\n{keys}\nreason = "because"\n').about(subject).entries) is matches


def test_what_a_person_wrote_is_asked_first(tmp_path: Path) -> None:
    """A generated entry takes only what no other covers, wherever it stands in the file."""
    ours = '[[expect]]\ntarget = "trl"\nreason = "generated"\ngenerated = true\n'
    theirs = '[[expect]]\ntarget = "trl"\nregion = "holes"\nreason = "theirs"\n'
    expect = loaded(tmp_path, ours + theirs)
    first, second = expect.find(CELL, ("holes",)), expect.find(CELL, ())
    assert first is not None
    assert second is not None
    assert (first.reason, second.reason) == ("theirs", "generated")


_OK = '[[expect]]\ntarget = "trl"\nreason = "x"\n'


@pytest.mark.parametrize(
    ("text", "line", "message", "hint"),
    [
        ("expect = 3\n", 1, "expect: takes entries that begin with [[expect]]", ""),
        ("expect = [\n  {target = 'trl', reason = 'x'},\n  3,\n]\n", 1, "expect entry 2: takes keys target", ""),
        ('[[expect]]\nreason = "x"\n', 1, "expect entry 1: target: is required", ""),
        (f'{_OK}\n[[expect]]\ntarget = "trl"\nreason = " "\n', 7, "expect entry 2: reason: got ' '", ""),
        (f'{_OK}# ...\nlosstype = "sapo"\n', 5, "no key 'losstype'", "loss_type"),
        (f'{_OK}loss_type = "sapoo"\n', 4, "got 'sapoo'", "sapo"),
        (f'{_OK}dtype = [\n  "float64",\n  "float23",\n]\n', 4, "dtype: got 'float23'", "float32"),
        (f"{_OK}level = []\n", 4, "level: got an empty list", ""),
        (f'{_OK}beta = "0"\n', 4, "beta: got '0', takes numbers", ""),
        (f'{_OK}region = "hole"\n', 4, "no region 'hole'", "holes"),
        (f'{_OK}version = "1.9"\n', 4, "version: got '1.9', takes a range", '"==1.9"'),
        (f"{_OK}range = 3\n", 4, "range: got 3, takes [lowest, highest]", ""),
        (f"{_OK}range = [10, 1]\n", 4, "takes a lowest that is at least 0 and at most the highest", ""),
        (f"{_OK}range = {{ float23 = [1, 2] }}\n", 4, "range: no dtype 'float23'", "float32"),
        (f'{_OK}expires = "soon"\n', 4, "expires: got 'soon', takes a date", ""),
        (f'{_OK}generated = "yes"\n', 4, "generated: got 'yes', takes true or false", ""),
        ('# old\n[[known]]\ntarget = "trl"\n', 2, "[[known]] is now called [[expect]]", "rename"),
    ],
)
def test_a_wrong_file_is_told_by_line_entry_and_key(
    text: str, line: int, message: str, hint: str, tmp_path: Path
) -> None:
    """A mistake in the file is no silent match of nothing, and is found at once."""
    with pytest.raises(UsageError) as caught:
        loaded(tmp_path, text)
    assert caught.value.message.startswith(f"{tmp_path / 'lossgate.toml'}, line {line}: ")
    assert message in caught.value.message
    assert hint in caught.value.hint


def test_a_file_that_is_no_toml(tmp_path: Path) -> None:
    """The parser's own words have the line."""
    with pytest.raises(UsageError, match=r"cannot read .*line 1"):
        loaded(tmp_path, "[[expect]\n")


def test_the_line_of_a_statement_is_found_among_texts_that_look_like_one() -> None:
    """Headers and keys inside of long texts and comments are none."""
    text = '# [[a]]\n[[a]]\nb = """\n[[a]]\nc = 1\n"""\n\n[x]\n\n[[a]]\n# c = 2\nc = [\n  3,\n]\n'
    lines = text.split("\n")
    assert lines[statement(text, ("a", 1))[0] - 1] == "[[a]]"
    assert statement(text, ("a", 0)) == (2, 2)
    assert statement(text, ("a", 0, "b")) == (3, 6)
    assert statement(text, ("a", 1)) == (10, 10)
    assert statement(text, ("a", 1, "c")) == (12, 14)


def test_no_file_is_no_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a configuration nothing is expected; a file that is named must be there."""
    monkeypatch.chdir(tmp_path)
    assert Config.load(None).expect.entries == ()
    with pytest.raises(UsageError, match="cannot read"):
        Config.load(tmp_path / "absent.toml")


def test_every_entry_of_this_repository_has_its_witness() -> None:
    """The witness is a case of the very loss and dtype, and lies in the region that the entry names."""
    from cases.regions import regions_of

    expect = Config.load(ROOT / "lossgate.toml").expect
    assert expect.entries
    for entry in expect.entries:
        case = Case.from_json((ROOT / entry.witness).read_text())
        assert (str(case.spec.loss_type),) == entry.loss_type
        assert not entry.dtype or (case.batch.dtype.name,) == entry.dtype
        assert entry.region in regions_of(case)


def test_entries_survive_the_record_of_a_run(tmp_path: Path) -> None:
    """A resumed run expects what the run expected when it began, ranges and dates too."""
    from harness.plan import Plan

    text = f"""{_OK}range = {{ float64 = [1e3, inf], float32 = [2, 3] }}\nexpires = 2030-01-31\nbeta = [0, 0.5]\n
[[expect]]\ntarget = "a"\nreason = "b"\nversion = ">=1"\nsignature = "s"\ngenerated = true\nlink = "l"\n"""
    expect = loaded(tmp_path, text)
    assert expect.entries[0].expires == date(2030, 1, 31)
    facts = json.loads(json.dumps(Plan.of(["trl"], expect=expect).as_facts(), allow_nan=False))
    assert Plan.from_facts(facts, jobs=1).expect == expect
