"""Where in input space a cell fails, in words."""

from __future__ import annotations

from cases.regions import REGIONS
from harness.signature.evidence import Where

_MOSTLY = 0.5
_NOT_WORTH_TELLING = 0.7
_DISJOINT = {
    ("row_empty", "batch_empty"): "a completion without tokens",
    ("delta_above", "delta_below"): "delta",
    ("importance_per_token", "importance_per_row"): "importance ratios",
}
"""Regions that no case is in together, with what they have in common."""

_NEGATED = {
    "on_policy": "off-policy",
    "ratio_inside": "with no ratio inside the clip bounds",
}


def condition(where: Where) -> str:
    """The narrowest region that holds all failing cases, where it says something; "" where none does.

    A region where most cases do not fail may hold those that do by chance, and is not told.
    """
    if not where.failing_cases or where.failing_cases == where.judged_cases:
        return ""
    candidates = []
    for name, region in REGIONS.items():
        judged = where.judged.get(name, 0)
        if where.failing.get(name, 0) == where.failing_cases and judged < where.judged_cases:
            candidates.append((judged, region.about))
        # Outside a region.
        outside = where.judged_cases - judged
        if name in _NEGATED and not where.failing.get(name, 0) and 0 < outside < where.judged_cases:
            candidates.append((outside, _NEGATED[name]))
    for parts, about in _DISJOINT.items():
        if sum(where.failing.get(name, 0) for name in parts) == where.failing_cases:
            candidates.append((sum(where.judged.get(name, 0) for name in parts), about))
    if not candidates:
        return ""
    judged, about = min(candidates, key=lambda one: one[0])
    if judged > _NOT_WORTH_TELLING * where.judged_cases or where.failing_cases < _MOSTLY * judged:
        return ""
    return f"only: {about}"
