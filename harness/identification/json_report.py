"""What was identified, as JSON: format `lossgate-identify/2`, which docs/identify.md describes."""

from __future__ import annotations

from typing import Any, Final

from harness.identification.identify import Identification
from harness.identification.naming import named
from harness.identification.report import exit_code
from harness.identification.survey import Survey
from harness.identification.unsettled import unsettled
from oracles.space.variant import AXES, Variant

FORMAT: Final = "lossgate-identify/2"


def as_json(survey: Survey) -> dict[str, Any]:
    """The whole answer as JSON data."""
    return {
        "format": FORMAT,
        "target": survey.label,
        "exit_code": int(exit_code(survey)),
        "losses": [_loss(one) for one in survey.found],
        "not_asked": list(survey.not_asked),
    }


def _loss(one: Identification) -> dict[str, Any]:
    departure = one.departure
    return {
        "loss_type": str(one.loss_type),
        "level": str(one.level),
        "as_named": one.is_as_asked,
        "known": one.known_as,
        "known_formulas": one.known,
        "probes": one.probes,
        "asked": _point(one.asked),
        "computes": [_point(point) for point in one.explained],
        "unsettled": [{"choices": doubt.choices, "needed": doubt.needed} for doubt in unsettled(one)],
        "departure": None
        if departure is None
        else {
            "nearest": _point(departure.nearest),
            "explains": list(departure.explains),
            "probe": departure.probe,
            "message": departure.message,
            "against": _point(departure.against),
            "seen": departure.seen,
            "accounts": departure.accounts,
        },
        "refusals": list(one.refusals),
        "failures": list(one.failures),
    }


def _point(point: Variant) -> dict[str, Any]:
    return {
        "name": named(point),
        "formula": point.words,
        **{axis: getattr(point, axis).name.lower() for axis in AXES},
    }
