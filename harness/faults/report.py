"""What became of the seeded faults, as plain text and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from harness.faults.hunt import Fate, Hunted
from harness.faults.survey import Fault, Survey
from harness.plan import Plan
from reports.formats import LOG_WIDTH
from reports.wrapping import wrapped

_WORDS: Final = {
    Fate.DROWNED: "drowned",
    Fate.ABSENT: "-",
    Fate.EQUIVALENT: "equal",
    Fate.LARGE: "large",
    Fate.ESCAPED: "ESCAPES",
    Fate.FALSE_ALARM: "FALSE ALARM",
}
_LEGEND: Final = (
    "number: the case of a cell, in the order of a run, that caught it; padding: padding hygiene did",
    "drowned: what it changes is less than rounding may change; equal: it changes nothing that counts",
    "-: it is no fault in this dtype; large: only large batches show it, see --large",
)


def lines(survey: Survey, plan: Plan, width: int = LOG_WIDTH) -> Iterator[str]:
    """A row a fault, what is not as it should be, and the score, in lines of at most `width` columns."""
    dtypes = [dtype.name for dtype in plan.dtypes]
    names = [fault.about.name for fault in survey.faults]
    rows = [
        ["fault", *dtypes, ""],
        *(
            [name, *map(_word, fault.found), fault.about.wrong]
            for name, fault in zip(names, survey.faults, strict=True)
        ),
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for name, *words, wrong in rows:
        cells = (word.rjust(width) for word, width in zip(words, widths[1:-1], strict=True))
        start = "  ".join([name.ljust(widths[0]), *cells, ""])
        yield from wrapped(wrong, width, start)
    for line in _LEGEND:
        yield from wrapped(line, width)
    for fault in survey.faults:
        for line in _complaints(fault):
            yield from wrapped(line, width, indent="    ")
    yield f"{survey.score}  (profile {plan.profile}, seed {plan.seed})"


def _word(found: Hunted) -> str:
    if found.fate is Fate.CAUGHT:
        return str(found.cases) if found.cases else found.phase
    return _WORDS[found.fate]


def _complaints(fault: Fault) -> Iterator[str]:
    for one in fault.found:
        if one.fate is Fate.ESCAPED:
            seen = f"{one.cases:,} cases conform, the nearest at {one.nearest:.2g} of its bound"
            why = seen if one.cases else "no case has what it needs"
            yield f"{fault.about.name} escapes in {one.dtype}: {why}"
        elif one.fate is Fate.FALSE_ALARM:
            yield f"{fault.about.name} is taken for a fault in {one.dtype}, {one.cell}: {one.message}"


def as_json(survey: Survey, plan: Plan) -> dict[str, Any]:
    """The same as JSON data."""
    return {
        "format": "lossgate-faults/1",
        "profile": plan.profile,
        "seed": plan.seed,
        "examples": plan.examples,
        "large": plan.large,
        "score": survey.score,
        "exit_code": int(survey.exit_code),
        "faults": [
            {
                "name": fault.about.name,
                "wrong": fault.about.wrong,
                "equivalent": fault.about.equivalent,
                "dtypes": {one.dtype: _found(one) for one in fault.found},
            }
            for fault in survey.faults
        ],
    }


def _found(one: Hunted) -> dict[str, Any]:
    told: dict[str, Any] = {"fate": str(one.fate)}
    if one.fate in (Fate.CAUGHT, Fate.FALSE_ALARM):
        told |= {"case": one.cases or None, "phase": one.phase, "cell": one.cell, "message": one.message}
    elif one.fate not in (Fate.ABSENT, Fate.LARGE):
        told |= {"cases": one.cases, "nearest": one.nearest}
    return told
