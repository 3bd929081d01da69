"""What a point is called, and the command that judges a target as what it computes."""

from __future__ import annotations

import shlex
from dataclasses import replace

from harness.identification.identify import Identification
from oracles.space.names import loss_of, name_of
from oracles.space.variant import KL, Rows, Variant, Weighting


def named(point: Variant) -> str:
    """What the field calls a point, or what it is made of where it has no name."""
    return name_of(point) or f"{point.surrogate.words}, {point.ratio.words}, {point.aggregation.words}"


def beside(point: Variant, shared: Variant | None) -> tuple[str, ...]:
    """What a name does not say: the KL term, unless it is one that is shared, and what is unusual."""
    words = []
    if shared is None or (point.kl, point.placement) != (shared.kl, shared.placement):
        words.append(point.kl.words if point.kl is KL.NONE else f"{point.kl.words} {point.placement.words}")
    if point.rows is not Rows.COUNTED:
        words.append(point.rows.words)
    if point.weighting is not Weighting.POLICY:
        words.append(point.weighting.words)
    return tuple(words)


def unnamed_differences(point: Variant, other: Variant) -> tuple[str, ...]:
    """Where a point does otherwise than another beyond what its name says."""
    axes = ("kl", "placement", "rows", "weighting")
    alike = replace(point, **{axis: getattr(other, axis) for axis in axes})
    return point.differences(alike)


def next_step(target: str, one: Identification) -> str:
    """The command to go on with: a loss judged as what it computes, where that has a name; else as asked for."""
    loss_type, level, why = one.loss_type, one.level, "finds its smallest wrong case"
    if one.best is not None:
        found = loss_of(one.best)
        if found is not None and found != (loss_type, level):
            (loss_type, level), why = found, "judges it as what it is"
    return f"lossgate run {shlex.quote(target)} --loss-type {loss_type} --level {level} {why}"
