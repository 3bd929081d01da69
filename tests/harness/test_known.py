"""Known divergences: precise, visible, and never silently wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from cases.case import Case
from harness.config import Config
from harness.errors import UsageError
from harness.known import KnownDivergences
from reports.records import Cell

ROOT = Path(__file__).parents[2]
CELL = Cell("trl 1.16.0", "logps", "sapo", "token", 0.04, "float64", "cpu")


def loaded(tmp_path: Path, text: str) -> KnownDivergences:
    path = tmp_path / "known.toml"
    path.write_text(text)
    return Config.load(path).known


@pytest.mark.parametrize(
    ("keys", "matches"),
    [
        ('target = "trl"', True),
        ('target = "trl 1.16.0"', True),
        ('target = "trl 1.15.0"', False),
        ('target = "tr"', False),
        ('target = "trl"\nloss_type = ["dapo", "sapo"]', True),
        ('target = "trl"\nloss_type = "dapo"', False),
        ('target = "trl"\nbeta = 0.04', True),
        ('target = "trl"\nbeta = 0', False),
        ('target = "trl"\nlevel = "sequence"', False),
        ('target = "trl"\ndtype = ["float32"]', False),
        ('target = "trl"\nregion = "holes"', True),
        ('target = "trl"\nregion = "square"', False),
    ],
)
def test_an_entry_covers_what_it_names(keys: str, matches: bool, tmp_path: Path) -> None:
    """Every key narrows; what is left out matches all; a region narrows to its cases."""
    known = loaded(tmp_path, f'[[known]]\n{keys}\nreason = "because"\n')
    assert (known.find(CELL, ("holes",)) is not None) is matches


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("[[known]\n", "cannot read", ""),
        ("known = 3\n", "takes entries that begin with [[known]]", ""),
        ('[[known]]\nreason = "x"\n', "target: is required", ""),
        ('[[known]]\ntarget = "trl"\nreason = " "\n', "reason: is required", ""),
        ('[[known]]\ntarget = "trl"\nreason = "x"\nlosstype = "sapo"\n', "no key 'losstype'", "loss_type"),
        ('[[known]]\ntarget = "trl"\nreason = "x"\nloss_type = "sapoo"\n', "got 'sapoo'", "sapo"),
        ('[[known]]\ntarget = "trl"\nreason = "x"\nbeta = "0"\n', "beta: got '0', takes numbers", ""),
        ('[[known]]\ntarget = "trl"\nreason = "x"\nregion = "hole"\n', "no region 'hole'", "holes"),
    ],
)
def test_a_wrong_file_is_told_by_entry_and_key(text: str, message: str, hint: str, tmp_path: Path) -> None:
    """A mistake in the file is no silent match of nothing."""
    with pytest.raises(UsageError) as caught:
        loaded(tmp_path, text)
    assert message in caught.value.message
    assert hint in caught.value.hint


def test_no_file_is_no_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a lossgate.toml nothing is known; a file that is named must be there."""
    monkeypatch.chdir(tmp_path)
    assert Config.load(None).known.entries == ()
    with pytest.raises(UsageError, match="cannot read"):
        Config.load(tmp_path / "absent.toml")


def test_every_entry_of_this_repository_has_its_witness() -> None:
    """The witness is a case of the very loss and dtype, and lies in the region that the entry names."""
    from cases.regions import regions_of

    known = Config.load(ROOT / "lossgate.toml").known
    assert known.entries
    for entry in known.entries:
        case = Case.from_json((ROOT / entry.witness).read_text())
        assert (str(case.spec.loss_type),) == entry.loss_type
        assert not entry.dtype or (case.batch.dtype.name,) == entry.dtype
        assert entry.region in regions_of(case)


def test_entries_survive_the_record_of_a_run() -> None:
    """A resumed run knows what the run knew when it began."""
    from harness.plan import Plan

    known = Config.load(ROOT / "lossgate.toml").known
    facts = Plan.of(["trl"], known=known).as_facts()
    assert KnownDivergences.from_facts(facts["known"]) == known
