"""Losses that are wrong on purpose: the exact mistake is named, in the field's words."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from harness.identification.identify import Identification
from harness.identification.report import lines
from harness.identification.survey import Survey, survey
from harness.identification.unsettled import unsettled
from harness.plan import Plan
from oracles.space.identities import canonical
from tests.identification.written import written

_TOKEN_MEAN: Final = "(terms * mask).sum() / mask.sum().clamp(min=1)"
_FILLED: Final = "((terms * mask).sum(1) / lengths).sum() / (mask.sum(1) > 0).sum().clamp(min=1)"
_SEQUENCE: Final = "torch.exp(mean_log_ratio)"
_INVERTED: Final = "torch.exp(-log_ratio)"
_OWN_MEAN: Final = f"{{}} + beta * {_TOKEN_MEAN.replace('terms', 'kl')}"

MISTAKES: Final[dict[str, tuple[dict[str, str], tuple[str, ...]]]] = {
    "nothing": ({}, ()),
    "aggregation": ({"loss": "(terms * mask).mean()"}, ("mean over all B x T positions, masked ones counted",)),
    "aggregation_of_tokens": ({"loss": _TOKEN_MEAN}, ("mean over the tokens of the micro-batch",)),
    "rows": ({"loss": _FILLED}, ("completions without tokens not counted",)),
    "ratio": ({"ratio": _INVERTED}, ("the old probability over the current one as the ratio",)),
    "ratio_on_policy": (
        {"ratio": "torch.exp(logps - logps.detach())"},
        ("a ratio of 1, old_logps ignored",),
    ),
    "surrogate": (
        {"surrogate": "-ratio.clamp(1 - epsilon_low, 1 + epsilon_high) * adv"},
        ("clipped ratio without the minimum",),
    ),
    "kl": ({"kl": "torch.exp(-x) + x - 1"}, ("k3 with logps and ref_logps exchanged",)),
    "placement": (
        {"weighed": "weight * policy", "loss": _OWN_MEAN.format("((terms * mask).sum(1) / lengths).mean()")},
        ("as a token mean of its own",),
    ),
    "weighting": (
        {"weighed": "weight * (policy + beta * kl)"},
        ("importance ratio on the policy term and the KL term",),
    ),
    "weighting_ignored": ({"weighed": "policy + beta * kl"}, ("importance ratio ignored",)),
    "ratio_and_kl": (
        {"ratio": _SEQUENCE, "kl": "x * x / 2"},
        ("one length-normalised ratio a completion", "k2"),
    ),
    "ratio_and_placement": (
        {
            "ratio": _INVERTED,
            "weighed": "weight * policy",
            "loss": _OWN_MEAN.format("((terms * mask).sum(1) / lengths).mean()"),
        },
        ("the old probability over the current one as the ratio", "as a token mean of its own"),
    ),
    "rows_and_weighting": (
        {"loss": _FILLED, "weighed": "weight * (policy + beta * kl)"},
        (
            "completions without tokens not counted",
            "importance ratio on the policy term and the KL term",
        ),
    ),
}


def _surveyed(name: str, text: str) -> Survey:
    Path(f"mistake_{name}.py").write_text(text)
    target = f"mistake_{name}:loss"
    return survey(Plan.of([target], loss_types="grpo", levels="token"), target, every_formula=False)


def _identified(name: str, text: str) -> Identification:
    (found,) = _surveyed(name, text).found
    return found


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_named(name: str) -> None:
    """Each axis of the space, and two at once: what is otherwise, and no other formula but in one process."""
    choices, words = MISTAKES[name]
    found = _identified(name, written(**choices))
    assert found.best is not None
    assert found.best.differences(found.asked) == words
    assert len({canonical(point, in_one_piece=True) for point in found.explained}) == 1
    assert found.probes == 3


def test_what_is_in_no_catalogue_departs() -> None:
    """A root of the length: none of the formulas, the nearest, where it departs, and what is seen of it."""
    found = _identified("root", written(loss="((terms * mask).sum(1) / lengths.sqrt()).mean()"))
    assert not found.explained
    assert found.known > 50_000
    assert found.departure is not None
    assert (found.departure.nearest, found.departure.explains) == (found.asked, ())
    assert found.departure.probe == "probe 1"
    assert "gradient is" in found.departure.message
    assert found.departure.seen == "each completion's gradient x sqrt(its length)"


def test_what_departs_in_one_probe_is_nearest_to_what_explains_the_others() -> None:
    """Importance ratios squared: the first two probes are grpo's; the third, which has some, is not."""
    found = _identified("squared", written(weighed="weight * weight * policy + beta * kl"))
    assert not found.explained
    assert found.departure is not None
    assert (found.departure.nearest, found.departure.explains) == (found.asked, (1, 2))
    assert found.departure.probe == "probe 3 (importance ratios)"


def test_what_cannot_be_told_apart_is_listed() -> None:
    """Without old_logps no clip acts and no ratio differs: the choices, and what it would take to tell."""
    surveyed = _surveyed("bare", written(options="beta", loss=_TOKEN_MEAN))
    (found,) = surveyed.found
    doubts = {doubt.choices: doubt.needed for doubt in unsettled(found)}
    assert len(found.explained) > 4
    first, *rest = doubts.items()
    assert first[0].startswith("dapo and bnpo are one formula in one process")
    assert first[1] == "accumulation steps or ranks (the target takes none)"
    assert "clipped surrogate / clipped surrogate with a dual clip / surrogate without a clip" in rest[0][0]
    assert "one ratio a token / " in rest[1][0]
    assert {needed for _, needed in rest} == {"old_logps that differ from logps (the target takes none)"}
    text = list(lines(surveyed))
    assert "  what no probe tells apart:" in text
    assert len(text) < 24
