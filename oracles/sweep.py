"""The gradient of a formula: the tape read backwards, exactly, with the rounding error of every step.

Where a decision of `minimum` or `clip` lies within rounding, an implementation may take either side, and
splits a tie evenly where two rounded numbers coincide: Torch's `min` gives each side the weight 1/2, its
`clamp` passes the gradient at equality, and a clip written with `min` and `max` passes half of it. The sweep
is repeated for each of these outcomes, the same at every decision; where several decisions enter one element,
it may lie in the hull of all independent choices.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final

from flint import arb

from oracles.scalar import Scalar
from oracles.tape import Tape

TIE_WEIGHTS: Final = (1.0, 0.0, 0.5)
"""Weight of the first operand of an undecided `minimum`; the second gets the rest."""

PASSES: Final = (0.0, 1.0, 0.5)
"""How much of the gradient an undecided `clip` passes; half, where it is written with a minimum and a maximum."""

QUARTER: Final = 0.25
"""How much a minimum of a maximum passes where rounding makes all three numbers one."""

HALVES: Final = 2.0
"""A tie inside the clip bounds sends the gradient on in two halves, each of which may underflow."""

_ZERO: Final = arb(0)


@dataclass(frozen=True)
class Slopes:
    """One outcome: for every leaf the exact derivative and its rounding error."""

    values: tuple[arb, ...]
    radii: tuple[float, ...]


@dataclass(frozen=True)
class Hull:
    """For every leaf that several undecided decisions enter, its least and greatest derivative; else None."""

    bounds: tuple[tuple[arb, arb] | None, ...]


@dataclass(frozen=True)
class Gradient:
    """All outcomes that rounding admits; more than one only where a decision is undecided."""

    outcomes: tuple[Slopes, ...]
    hull: Hull | None


def gradient(output: Scalar, leaves: Sequence[Scalar]) -> Gradient:
    """Derivatives of `output` by `leaves`, with every outcome that rounding admits."""
    tape = output.tape
    if output.index < 0:
        zeros = Slopes((_ZERO,) * len(leaves), (0.0,) * len(leaves))
        return Gradient((zeros,), None)
    decisions = _decisions(tape, output)
    if not decisions:
        return Gradient((_sweep(output, leaves, 1.0, 0.0),), None)
    minima = [node for node in decisions if node.operation == "minimum"]
    clips = [node for node in decisions if node.operation == "clip"]
    repeating = _repeating(minima)
    weights = TIE_WEIGHTS if minima else (1.0,)
    passes = PASSES if clips else (0.0,)
    if clips and tape.pinches:
        passes = (*passes, QUARTER)
    outcomes = tuple(
        _sweep(output, leaves, weight, passing)
        for weight, passing in product(weights, passes)
        # With all the weight on the first operand, a clip that repeats it is not reached.
        if not (weight == 1.0 and passing != passes[0] and len(repeating) == len(clips))
    )
    own = [node for node in clips if node.index not in repeating]
    return Gradient(outcomes, _hull(output, leaves, minima, own))


def _decisions(tape: Tape, output: Scalar) -> list[Scalar]:
    """The undecided scalars that a gradient of `output` passes."""
    if not tape.undecided:
        return []
    reached = {output.index}
    for index in range(output.index, -1, -1):
        if index in reached:
            reached.update(edge.parent for edge in tape.nodes[index].edges)
    return [node for node in tape.undecided if node.index in reached]


def _repeating(minima: Sequence[Scalar]) -> frozenset[int]:
    """The clips in doubt that are an operand of a minimum in doubt beside the number they clip, as clip(r) A is
    beside r A: open, such a clip only repeats what the other operand passes."""
    found = set()
    for node in minima:
        for operand, beside in (node.operands, node.operands[::-1]):
            clip = _factors(operand)[-1]
            if clip.operation == "clip" and any(factor is clip.operands[0] for factor in _factors(beside)):
                found.add(clip.index)
    return frozenset(found)


def _factors(node: Scalar) -> list[Scalar]:
    """The scalar, and what it is a multiple of, or a minimum of with a constant."""
    chain = [node]
    while chain[-1].operation in ("product", "negation", "minimum"):
        passing = [operand for operand in chain[-1].operands if operand.index >= 0]
        if len(passing) != 1:
            break
        chain.append(passing[0])
    return chain


def _sweep(output: Scalar, leaves: Sequence[Scalar], weight: float, passing: float) -> Slopes:
    tape = output.tape
    contract = tape.contract
    u, eta, largest = contract.u, contract.eta, contract.largest
    nodes = tape.nodes
    size = output.index + 1
    values: list[arb | None] = [None] * size
    radii = [0.0] * size
    magnitudes = [0.0] * size
    gains = [1.0] * size
    contributions = [0] * size
    values[output.index] = arb(1)
    magnitudes[output.index] = 1.0
    for index in range(output.index, -1, -1):
        value = values[index]
        if value is None:
            continue
        node = nodes[index]
        radius, magnitude, gain = radii[index], magnitudes[index], gains[index]
        if contributions[index] > 1:
            radius += contract.meeting(contributions[index]) * (magnitude + radius)
            radii[index] = radius
        shares: tuple[float, ...] | None = None
        if node.operation == "minimum":
            shares = _shares(node, weight)
        elif node.operation == "clip":
            shares = (passing,)
        for position, edge in enumerate(node.edges):
            parent = edge.parent
            if shares is not None:
                share = shares[position]
                if share == 0.0:
                    continue
                passed, error, passed_size, passed_gain = (
                    value * share,
                    radius * share,
                    magnitude * share,
                    gain,
                )
            elif edge.derivative is None:
                passed = value if edge.sign > 0 else -value
                error, passed_size, passed_gain = radius, magnitude, gain
            else:
                passed = value * edge.derivative
                passed_size = magnitude * edge.size
                passed_gain = gain * edge.gain
                error = (magnitude + radius) * edge.radius + radius * edge.size
                error += u * (passed_size + error)
                if passed_size or error:
                    error += HALVES * edge.steps * eta * passed_gain
            if not passed_size + error <= largest:
                tape.flag_below(parent)
            known = values[parent]
            values[parent] = passed if known is None else known + passed
            radii[parent] += error
            magnitudes[parent] += passed_size
            contributions[parent] += 1
            if passed_gain > gains[parent]:
                gains[parent] = passed_gain
    return Slopes(
        tuple(_ZERO if (value := _at(values, leaf)) is None else value for leaf in leaves),
        tuple(radii[leaf.index] if leaf.index < size else 0.0 for leaf in leaves),
    )


def _at(values: list[arb | None], leaf: Scalar) -> arb | None:
    return values[leaf.index] if leaf.index < len(values) else None


def _shares(node: Scalar, weight: float) -> tuple[float, ...]:
    """Weights of the edges of an undecided minimum; a constant operand has no edge."""
    first, second = node.operands
    return tuple(share for share, operand in ((weight, first), (1.0 - weight, second)) if operand.index >= 0)


def _hull(
    output: Scalar, leaves: Sequence[Scalar], minima: Sequence[Scalar], clips: Sequence[Scalar]
) -> Hull | None:
    """The range of each derivative over independent decisions, for the leaves that several of them enter.

    A decision written down several times is one. `clips` are those with a decision of their own; any other clip in
    doubt is counted as closed: open, it would only repeat what the other operand of its minimum already passes.
    """
    groups: dict[tuple[object, ...], int] = {}
    bit = {node.index: 1 << groups.setdefault(_decided_by(node), len(groups)) for node in (*minima, *clips)}
    if len(groups) < 2:
        return None
    nodes = output.tape.nodes
    size = output.index + 1
    ranges: list[tuple[arb, arb] | None] = [None] * size
    entered = [0] * size
    ranges[output.index] = (arb(1), arb(1))
    for index in range(output.index, -1, -1):
        span = ranges[index]
        if span is None:
            continue
        node = nodes[index]
        low, high = span
        marks = entered[index] | bit.get(index, 0)
        undecided = index in bit
        for edge in node.edges:
            if node.operation == "clip" and not undecided:
                continue
            if undecided:
                passed = (_least(low, _ZERO), _greatest(high, _ZERO))
            elif edge.derivative is None:
                passed = (low, high) if edge.sign > 0 else (-high, -low)
            else:
                ends = (low * edge.derivative, high * edge.derivative)
                passed = (_least(*ends), _greatest(*ends))
            known = ranges[edge.parent]
            ranges[edge.parent] = passed if known is None else (known[0] + passed[0], known[1] + passed[1])
            entered[edge.parent] |= marks
    bounds = tuple(
        ranges[leaf.index] if leaf.index < size and entered[leaf.index].bit_count() > 1 else None
        for leaf in leaves
    )
    return Hull(bounds) if any(bounds) else None


def _decided_by(node: Scalar) -> tuple[object, ...]:
    """Equal for decisions that every implementation takes alike: on the same scalar, or between operands of equal
    numbers that are got in the same way."""
    if node.operation == "clip":
        return (node.operands[0].index,)
    return tuple((operand.operation, operand.mid) for operand in node.operands)


def _least(a: arb, b: arb) -> arb:
    return a if a < b else b


def _greatest(a: arb, b: arb) -> arb:
    return a if a > b else b
