"""`lossgate identify`: the formula that a target computes, by its name."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final

import pytest

from tests.cli.conftest import EXAMPLE, Lossgate

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = ROOT / "docs" / "identify.md"
SEQUENCE: Final = "at sequence level"
DUAL: Final = "with a dual clip"
ALONE: Final = "at sequence level, with a gradient to each token alone"
REFUSED: Final = "unsupported"
KNOWN: Final = "known"

SAYS: Final[dict[str, dict[str, tuple[str, str]]]] = {
    "trl": {
        **{name: (name, f"{name} {SEQUENCE}") for name in ("bnpo", "dr_grpo", "dapo", "cispo", "sapo", "luspo")},
        "grpo": ("grpo", f"grpo {SEQUENCE} (GSPO)"),
        "vespo": ("vespo", "vespo"),
    },
    "liger==0.8.5": {
        **{name: (name, f"{name} {SEQUENCE}") for name in ("bnpo", "dr_grpo", "dapo")},
        **{name: (name, REFUSED) for name in ("cispo", "sapo", "vespo")},
        "grpo": ("grpo", f"grpo {SEQUENCE} (GSPO)"),
        "luspo": (KNOWN, KNOWN),
    },
    "verl==0.9.1": {
        **{name: (f"{name}, {DUAL}", f"{name} {ALONE}") for name in ("bnpo", "dr_grpo", "dapo", "luspo")},
        "grpo": (f"grpo, {DUAL}", "GSPO-token"),
        "cispo": ("cispo, clipped on both sides", REFUSED),
        "sapo": ("sapo", REFUSED),
        "gmpo": (KNOWN, REFUSED),
    },
    "openrlhf==0.11.2": {
        "grpo": ("grpo", f"grpo {SEQUENCE} (GSPO)"),
        "bnpo": ("bnpo", REFUSED),
        "dapo": ("dapo", REFUSED),
    },
    "unsloth==2026.10.9": {
        **{name: (name, f"{name} {SEQUENCE}") for name in ("bnpo", "dr_grpo", "dapo", "cispo", "sapo", "luspo")},
        "grpo": ("grpo", f"grpo {SEQUENCE} (GSPO)"),
    },
}
"""What is said of each loss of a library, at token and at sequence level."""

ONE_PROCESS: Final = {
    "trl": set(),
    "liger==0.8.5": {"bnpo", "dapo", "cispo", "vespo"},
    "verl==0.9.1": {"bnpo"},
    "openrlhf==0.11.2": {"bnpo"},
    "unsloth==2026.10.9": set(),
}
"""Losses of which it is left open whether they average over the micro-batch or the step: no split is taken."""


@pytest.fixture
def expecting(folder: Path) -> None:
    """The user's folder has this repository's `lossgate.toml`."""
    (folder / "lossgate.toml").write_text((ROOT / "lossgate.toml").read_text())


@pytest.mark.usefixtures("expecting")
@pytest.mark.parametrize("target", SAYS)
def test_every_loss_of_a_library_is_named(target: str, lossgate: Lossgate) -> None:
    """Every loss at both levels, by at most three probes; one without a name is one that lossgate.toml expects."""
    result = lossgate("identify", target, "--format", "json", "--offline")
    assert result.returncode == 0, result.stdout + result.stderr
    answer = json.loads(result.stdout)
    assert _keys(answer) <= _documented()
    said: dict[str, dict[str, str]] = {}
    for one in answer["losses"]:
        said.setdefault(one["loss_type"], {})[one["level"]] = _said(one)
        assert one["probes"] <= 3
        open_questions = [doubt["choices"][:30] for doubt in one["unsettled"]]
        only = ["dapo and bnpo are one formula "] if one["loss_type"] in ONE_PROCESS[target] else []
        assert open_questions == (only if one["as_named"] else []), one
    assert {name: (found["token"], found["sequence"]) for name, found in said.items()} == SAYS[target]


def _keys(data: Any, path: str = "") -> set[str]:
    """Every key of JSON data, as the page writes them: `losses[].level`."""
    if isinstance(data, list):
        return {key for item in data for key in _keys(item, f"{path}[]")}
    if not isinstance(data, dict):
        return {path}
    below = {key: _keys(value, f"{path}.{key}".lstrip(".")) for key, value in data.items()}
    return {path for paths in below.values() for path in paths if path}


def _documented() -> set[str]:
    """The keys that the page has; those of a formula stand there once."""
    rows = re.findall(r"^\| `([^`]+)` \|", PAGE.read_text(), re.MULTILINE)
    formulas = [row.removesuffix(" (formula)") for row in rows if row.endswith(" (formula)")]
    axes = [row.removeprefix("formula.") for row in rows if row.startswith("formula.")]
    plain = {row for row in rows if not row.endswith(" (formula)")}
    return plain | {f"{formula}.{axis}" for formula in formulas for axis in axes}


def _said(one: dict[str, Any]) -> str:
    if not one["probes"]:
        assert one["refusals"]
        return REFUSED
    assert one["as_named"] == (not one["known"]), one
    if one["known"]:
        assert one["departure"]["nearest"]["name"].startswith(one["loss_type"])
        return KNOWN
    return str(one["computes"][0]["name"])


def test_a_known_departure_fails_where_nobody_expects_it(lossgate: Lossgate) -> None:
    """Without a lossgate.toml, the reason is found: verl's gmpo is not divided by the micro-batches."""
    result = lossgate("identify", "verl==0.9.1", "--loss-type", "gmpo", "--level", "token", "--offline")
    assert result.returncode == 1
    text = " ".join(result.stdout.split())
    assert "it explains probes 1 and 2" in text
    assert "departs in probe 3 (a split over accumulation steps)" in text
    assert "against gmpo: policy term x accumulation_steps" in text


def test_the_formula_printed_for_grpo_is_bnpo(lossgate: Lossgate) -> None:
    """PR 3395: bnpo, the same as dapo in one process; not grpo."""
    result = lossgate("identify", "printed:loss", "--loss-type", "grpo", "--level", "token")
    assert result.returncode == 1
    assert "bnpo, not grpo" in result.stdout
    assert "dapo and bnpo are one formula in one process" in result.stdout
    assert "next: lossgate run printed:loss --loss-type bnpo --level token" in result.stdout


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("fault:no_clip", "grpo, but: surrogate without a clip"),
        ("fault:kl_detached", "grpo, but: k3 without a gradient"),
        ("fault:seq_level", "grpo at sequence level (GSPO), not grpo"),
    ],
)
def test_a_seeded_fault_is_found(fault: str, words: str, lossgate: Lossgate) -> None:
    """What is otherwise is found among every formula there is, without an option."""
    result = lossgate("identify", fault, "--loss-type", "grpo", "--level", "token")
    assert result.returncode == 1
    assert words in " ".join(result.stdout.split())


def test_an_unknown_formula_is_said_to_be_none(lossgate: Lossgate, folder: Path) -> None:
    """2^x in place of e^x is in no catalogue: the nearest is named, where it departs, why, and what to do."""
    text = EXAMPLE.read_text().replace("torch.exp(log_ratio)", "torch.exp2(log_ratio)")
    (folder / "other.py").write_text(text)
    result = lossgate("identify", "other:loss", "--loss-type", "bnpo", "--level", "token")
    assert result.returncode == 1
    lines = result.stdout.splitlines()
    assert lines[0] == "other:loss: 0 of 1 loss is as named (2 probes)"
    assert max(map(len, lines)) <= 100
    text = " ".join(result.stdout.split())
    assert "known formulas explains 2 probes nearest: bnpo: clipped surrogate" in text
    assert "departs in probe 1: loss is" in text
    assert "against bnpo: ratio is 2 to the log-ratio, not e to it" in text
    assert "next: lossgate run other:loss --loss-type bnpo --level token" in text


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (("no_such_target",), 2, "no target named 'no_such_target'"),
        (("printed:loss",), 2, "it must be said which loss it is"),
        (("printed:loss", "--loss-type", "grop"), 2, "no loss type named 'grop'"),
        (("printed:loss", "--loss-type", "vespo"), 4, "does not take what vespo needs"),
        (("fault:no_clip", "--loss-type", "gmpo"), 4, "has no loss gmpo; it has grpo, "),
    ],
)
def test_bad_input_is_a_sentence(arguments: tuple[str, ...], code: int, sentence: str, lossgate: Lossgate) -> None:
    """What cannot be asked is said at once, without a traceback."""
    result = lossgate("identify", *arguments)
    assert result.returncode == code
    assert sentence in result.stdout + result.stderr
    assert "Traceback" not in result.stderr


def test_a_target_that_raises_is_not_as_named(lossgate: Lossgate, folder: Path) -> None:
    """An error in one probe is told and fails, though the others are explained."""
    text = EXAMPLE.read_text().replace(
        "if advantages.dim() == 1:",
        "if advantages.dim() == 2:\n        " + "raise ValueError('one a row')\n    if advantages.dim() == 1:",
    )
    (folder / "raises.py").write_text(text)
    result = lossgate("identify", "raises:loss", "--loss-type", "bnpo", "--level", "token")
    assert result.returncode == 1
    assert "not every probe was answered: probe 2: error:" in " ".join(result.stdout.split())
