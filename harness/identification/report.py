"""What was identified, as plain text and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any, Final

from harness.exit_codes import ExitCode
from harness.identification.identify import Identification, named
from harness.identification.survey import Survey
from oracles.space.variant import Aggregation, Variant

_MOST_SHOWN: Final = 4
_BNPO_IS_DAPO: Final = "the mean over the micro-batch (bnpo) is that over the step (dapo)"


def exit_code(survey: Survey) -> ExitCode:
    """Whether each loss is what its name says."""
    answered = [one for one in survey.found if one.probes]
    if not answered:
        return ExitCode.INCOMPARABLE
    return ExitCode.CONFORMS if all(one.is_as_asked for one in answered) else ExitCode.DIVERGES


def lines(survey: Survey) -> Iterator[str]:
    """One block a loss: what was asked for, what is computed, what would tell the rest apart."""
    yield survey.label
    if not survey.found:
        yield "  has none of the losses that were asked for"
    for one in survey.found:
        yield from _block(one)
    if survey.not_asked:
        yield f"  not asked: {', '.join(survey.not_asked)}; lossgate run judges them"


def _block(one: Identification) -> Iterator[str]:
    asked = f"  {one.loss_type} {one.level}"
    if not one.probes:
        yield f"{asked}: nothing was answered ({one.failure or 'no probe fits it'})"
        return
    if not one.explained:
        assert one.nearest is not None, "some point is the nearest"
        yield f"{asked}: none of {one.known:,} known formulas ({_probes(one)})"
        yield f"      nearest: {named(one.nearest)}: {one.nearest.words}"
        yield f"      it departs: {one.departs}"
        return
    best = one.asked if one.is_as_asked else one.explained[0]
    verdict = "as its name says" if one.is_as_asked else f"not {one.loss_type}: {_told(best, one.asked)}"
    yield f"{asked}: computes {named(best)}, {verdict} ({_probes(one)})"
    yield f"      {best.words}"
    if one.in_one_piece and best.aggregation is Aggregation.TOKEN_MEAN:
        yield f"      in one process without accumulation {_BNPO_IS_DAPO}"
    others = [point for point in one.explained if point != best]
    for other in others[:_MOST_SHOWN]:
        yield f"      or: {', '.join(other.differences(best))}"
    if len(others) > _MOST_SHOWN:
        yield f"      or {len(others) - _MOST_SHOWN} more"
    if others:
        yield f"      to tell them apart: {_needed(best, others)}"


def _told(point: Variant, asked: Variant) -> str:
    return ", ".join(point.differences(asked))


def _probes(one: Identification) -> str:
    return f"{one.probes} probe{'' if one.probes == 1 else 's'}"


def _needed(best: Variant, others: list[Variant]) -> str:
    """What the target would have to take for the rest to be told apart."""
    axes = {axis for other in others for axis in _axes(best, other)}
    needs = {
        "ratio": "old_logps, or advantages of shape (B, T)",
        "surrogate": "old_logps that differ from logps, and both clip bounds",
        "aggregation": "a batch split over accumulation steps",
        "kl": "beta above 0 with ref_logps",
        "placement": "beta above 0 with ref_logps",
        "rows": "a completion without tokens",
        "weighting": "an importance ratio",
    }
    return "; ".join(text for axis, text in needs.items() if axis in axes)


def _axes(one: Variant, other: Variant) -> set[str]:
    ours, theirs = asdict(one), asdict(other)
    return {axis for axis in ours if ours[axis] is not theirs[axis]}


def as_json(survey: Survey) -> dict[str, Any]:
    """The same as JSON data."""
    return {
        "format": "lossgate-identify/1",
        "target": survey.label,
        "exit_code": int(exit_code(survey)),
        "not_asked": list(survey.not_asked),
        "losses": [
            {
                "loss_type": str(one.loss_type),
                "level": str(one.level),
                "as_named": one.is_as_asked,
                "known_formulas": one.known,
                "probes": one.probes,
                "computes": [_point(point) for point in one.explained],
                "nearest": None if one.nearest is None else {**_point(one.nearest), "departs": one.departs},
                "failure": one.failure,
            }
            for one in survey.found
        ],
    }


def _point(point: Variant) -> dict[str, Any]:
    return {
        "name": named(point),
        "formula": point.words,
        **{axis: value.name.lower() for axis, value in asdict(point).items()},
    }
