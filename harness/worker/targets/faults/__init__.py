"""Seeded faults, `fault:NAME`: each formula with one deliberate mistake, to test whether it is caught."""

from __future__ import annotations

import difflib
from collections.abc import Mapping

from ...target import Target, Unavailable
from . import (
    accumulation,
    advantages,
    aggregation,
    clip,
    delta,
    gates,
    kl,
    mask,
    off_policy,
    padding,
    precision,
    ratio,
    size,
    window,
)
from .fault import Fault, FaultTarget
from .steps import Steps

PREFIX = "fault:"

NONE = Fault("none", "nothing: the correct implementation that the faults are made from", Steps(), equivalent=True)

_THEMES = (
    aggregation,
    kl,
    clip,
    delta,
    ratio,
    gates,
    off_policy,
    mask,
    padding,
    accumulation,
    window,
    advantages,
    precision,
    size,
)

FAULTS = (NONE, *(fault for theme in _THEMES for fault in theme.FAULTS))


def open_target(name: str, _options: Mapping[str, str]) -> Target:
    """The fault of that name."""
    known = {fault.name: fault for fault in FAULTS}
    wanted = name[len(PREFIX) :]
    if wanted in known:
        return FaultTarget(known[wanted], tuple(known))
    close = difflib.get_close_matches(wanted, known)
    what = "did you mean" if close else "known here:"
    names = ", ".join(PREFIX + one for one in close or known)
    raise Unavailable("unknown", f"no fault named {wanted!r}", f"{what} {names}{'?' if close else ''}")
