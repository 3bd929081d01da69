"""lossgate.toml: default targets, targets under names of their own, conventions that their owner declares."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from cases.conventions import Conventions
from cases.spec import Level, LossSpec, LossType
from harness.config import Config
from harness.errors import UsageError
from harness.outcome import TargetFacts, TargetSupport
from harness.plan import Plan
from harness.preparation import fresh
from harness.settings import TargetSettings

FACTS = TargetFacts(
    label="trl 1.16.0",
    versions={},
    supports=TargetSupport(("grpo",), ("token",), ("float32",), ()),
    conventions=Conventions(),
    conventions_by_loss={"cispo": Conventions(cispo_clip="two_sided")},
    replaced=(),
    python="3.11.1",
    torch="2.13.0",
    platform="Linux",
)
FILE = """\
targets = ["fork", "losses:mine"]

[target.fork]
name = "trl"
python = "../fork/bin/python"

[target."losses:mine"]
loss_type = "bnpo"
conventions = { dual_clip = 3, log_ratio_bounds = [-20, 20] }
"""


def loaded(tmp_path: Path, text: str) -> Config:
    path = tmp_path / "lossgate.toml"
    path.write_text(text)
    return Config.load(path)


def test_targets_and_their_settings_are_read(tmp_path: Path) -> None:
    """What the file says of a target is what the plan of a run knows of it, also after a round trip to disk."""
    config = loaded(tmp_path, FILE)
    plan = Plan.of(config.targets, settings=config.settings)
    read = Plan.from_facts(json.loads(json.dumps(plan.as_facts())), jobs=1)
    for one in (plan, read):
        assert one.targets == ("fork", "losses:mine")
        fork, mine = one.settings_of("fork"), one.settings_of("losses:mine")
        assert (fork.name, fork.python, fork.loss_type) == ("trl", "../fork/bin/python", "")
        assert (mine.name, mine.python, mine.loss_type) == ("losses:mine", "", "bnpo")
        assert one.settings_of("other") == TargetSettings("other", "other")
        assert mine.applied(FACTS).conventions == Conventions(dual_clip=3.0, log_ratio_bounds=(-20.0, 20.0))


def test_a_name_of_its_own_is_in_the_label(tmp_path: Path) -> None:
    """A report tells a fork from what it is a fork of; a target under its usual name keeps its label."""
    config = loaded(tmp_path, FILE)
    assert Plan.of(["fork"], settings=config.settings).settings_of("fork").applied(FACTS).label == (
        "fork (trl 1.16.0)"
    )
    assert TargetSettings.of("trl").applied(FACTS) == FACTS


def test_declared_conventions_go_on_top(tmp_path: Path) -> None:
    """They hold for every loss, beside what the target declares for one."""
    mine = Plan.of(["losses:mine"], settings=loaded(tmp_path, FILE).settings).settings_of("losses:mine")
    facts = mine.applied(FACTS)
    cispo = facts.conventions_for(LossSpec(LossType.CISPO, Level.TOKEN))
    assert (cispo.dual_clip, cispo.cispo_clip) == (3.0, "two_sided")
    assert facts.conventions_for(LossSpec(LossType.GRPO, Level.TOKEN)).dual_clip == 3.0
    undeclared = replace(mine, conventions={})
    assert undeclared.applied(FACTS).conventions_for(LossSpec(LossType.GRPO, Level.TOKEN)) == Conventions()


def test_the_targets_of_the_file_are_judged_where_none_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A gate is one word, `lossgate run`; a target that is named comes instead."""
    monkeypatch.chdir(tmp_path)
    loaded(tmp_path, FILE)
    assert fresh(tmp_path / "a", None, []).plan.targets == ("fork", "losses:mine")
    assert fresh(tmp_path / "b", None, ["trl"]).plan.targets == ("trl",)
    (tmp_path / "lossgate.toml").unlink()
    with pytest.raises(UsageError, match=r"no target given, and no lossgate\.toml here that names one"):
        fresh(tmp_path / "c", None, [])


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("target = 3\n", r"target: takes tables that begin with \[target.NAME\]", ""),
        ('targets = "trl"\n', "targets: got 'trl', takes a list of target names", ""),
        ('taget = ["trl"]\n', "no key 'taget'", "target"),
        ("[target]\nfork = 3\n", "target 'fork': takes keys", ""),
        ('[target.fork]\npyton = "x"\n', "target 'fork': no key 'pyton'", "python"),
        ("[target.fork]\npython = 3\n", "target 'fork': python: got 3, takes a text", ""),
        ('[target.fork]\nloss_type = "gpro"\n', "no loss type 'gpro'", "grpo"),
        ("[target.fork]\nconventions = 3\n", "conventions: takes a table of empty_rows", ""),
        ("[target.fork]\nconventions = { dualclip = 3 }\n", "no convention 'dualclip'", "dual_clip"),
        ("[target.fork]\nconventions = { dual_clip = 0.5 }\n", "dual_clip: got 0.5, takes a number above 1", ""),
    ],
)
def test_a_wrong_file_is_told_by_entry_and_key(text: str, message: str, hint: str, tmp_path: Path) -> None:
    """The sentence names the file, the line, the entry and the key; a near miss is named."""
    with pytest.raises(UsageError, match=message) as caught:
        loaded(tmp_path, text)
    line = text.rstrip().count("\n") + 1
    assert caught.value.message.startswith(f"{tmp_path / 'lossgate.toml'}, line {line}: ")
    assert hint in caught.value.hint


EXPECT = 'expect = [{ target = "trl", reason = "because" }]'


def test_a_section_of_pyproject_is_a_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is read where there is no lossgate.toml, and where it is named; line numbers are the file's."""
    monkeypatch.chdir(tmp_path)
    pyproject = tmp_path / "pyproject.toml"
    pyproject.write_text(f'[project]\nname = "fork"\n\n[tool.lossgate]\ntargets = ["trl"]\n{EXPECT}\n')
    for config in (Config.load(None), Config.load(pyproject)):
        assert config.targets == ("trl",)
        assert [entry.reason for entry in config.expect.entries] == ["because"]
        assert config.file.name == "pyproject.toml"
        assert config.note == ""
    pyproject.write_text('[project]\nname = "fork"\n\n[tool.lossgate]\ntagets = ["trl"]\n')
    with pytest.raises(UsageError, match=r"pyproject\.toml, line 5: no key 'tagets'"):
        Config.load(None)


def test_lossgate_toml_comes_before_pyproject(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where both have content one is read, and it is said which; a pyproject of others is not mentioned."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lossgate.toml").write_text('targets = ["liger"]\n')
    pyproject = tmp_path / "pyproject.toml"
    pyproject.write_text('[tool.lossgate]\ntargets = ["trl"]\n')
    config = Config.load(None)
    assert config.targets == ("liger",)
    assert config.note == "lossgate.toml is read; [tool.lossgate] in pyproject.toml is not"
    pyproject.write_text("[tool.other]\n")
    assert Config.load(None).note == ""
    with pytest.raises(UsageError, match=r"has no \[tool\.lossgate\]"):
        Config.load(pyproject)
