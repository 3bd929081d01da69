"""What was identified, as plain text: one line a loss, and more about those that are not what their names say."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import Final

from harness.exit_codes import ExitCode
from harness.identification.identify import Identification
from harness.identification.naming import beside, named, next_step, unnamed_differences
from harness.identification.survey import Survey
from harness.identification.unsettled import unsettled
from oracles.space.names import name_of
from oracles.space.variant import KL, Variant

WIDTH: Final = 100
_HEAD: Final = ("loss_type", "level", "computes")


def exit_code(survey: Survey) -> ExitCode:
    """Whether each loss is what its name says, or departs from it as `lossgate.toml` expects."""
    told = [one for one in survey.found if one.probes or one.failures]
    if not told:
        return ExitCode.INCOMPARABLE
    return ExitCode.CONFORMS if all(one.is_as_asked or one.known_as for one in told) else ExitCode.DIVERGES


def lines(survey: Survey) -> Iterator[str]:
    """One screen: what each loss computes, what is not told apart, and what to do next."""
    told = [one for one in survey.found if one.probes or one.failures]
    if not told:
        refusals = dict.fromkeys(refusal for one in survey.found for refusal in one.refusals)
        why = f"answers nothing: {'; '.join(refusals)}" if refusals else survey.lacks
        yield from _wrapped(f"{survey.label} {why}", "")
        return
    yield from _wrapped(f"{survey.label}: {_summary(told)}", "")
    shared = _shared_kl(told)
    rows = [_HEAD, *((str(one.loss_type), str(one.level), _computes(one, shared)) for one in told)]
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    for row in rows:
        start = f"  {row[0]:<{widths[0]}}  {row[1]:<{widths[1]}}  "
        yield from _wrapped(row[2], start, " " * len(start))
    if shared is not None:
        yield from _wrapped(f"each with {shared.kl.words} {shared.placement.words}", "  ")
    for one in told:
        if not one.is_as_asked:
            yield from _block(one, survey)
    yield from _unsettled(told)
    yield from _left_out(survey)


def _computes(one: Identification, shared: Variant | None) -> str:
    """The last column: the formula's name, and what the name does not say."""
    if one.best is None:
        expected = ", as lossgate.toml expects" if one.known_as else ""
        return f"no known formula{expected} (below)" if one.departure is not None else "no answer (below)"
    if one.asked in one.explained:
        name = ", ".join([named(one.best), *beside(one.best, shared)])
        # A convention that the target declares is no fault.
        return name if one.asked == one.bare else f"{name} (as it declares)"
    asked = named(one.asked)
    if name_of(one.best) in ("", name_of(one.asked)):
        return f"{asked}, but: {', '.join(one.best.differences(one.asked))}"
    besides = unnamed_differences(one.best, one.asked)
    return f"{named(one.best)}, not {asked}" + (f"; and: {', '.join(besides)}" if besides else "")


def _shared_kl(told: list[Identification]) -> Variant | None:
    """A point whose KL term all have, where there are several and it is the same."""
    points = [one.best for one in told if one.best is not None]
    same = len({(point.kl, point.placement) for point in points}) == 1
    return points[0] if len(points) > 1 and same and points[0].kl is not KL.NONE else None


def _block(one: Identification, survey: Survey) -> Iterator[str]:
    """What is wrong with one loss, and what to do next."""
    yield ""
    title = f"{one.loss_type} {one.level}"
    if one.failures:
        yield from _wrapped(f"{title}: not every probe was answered: {'; '.join(one.failures)}", "  ")
    best = one.best
    if best is not None and one.asked not in one.explained:
        yield from _wrapped(f"{title}: {', '.join(best.differences(one.asked))}", "  ")
        yield from _wrapped(f"instead of: {', '.join(one.asked.differences(best))}", "    ")
        yield from _wrapped(f"formula: {best.words}", "    ")
    if one.departure is not None:
        yield from _departed(one, title)
    yield from _next(one, survey)


def _departed(one: Identification, title: str) -> Iterator[str]:
    departure = one.departure
    assert departure is not None
    nearest = departure.nearest
    yield from _wrapped(f"{title}: none of {one.known:,} known formulas explains {_probes(one.probes)}", "  ")
    explains = ""
    if departure.explains:
        numbers = " and ".join(map(str, departure.explains))
        explains = f"; it explains probe{'s' if len(departure.explains) > 1 else ''} {numbers}"
    name = f"{name_of(nearest)}: " if name_of(nearest) else ""
    yield from _wrapped(f"nearest: {name}{nearest.words}{explains}", "    ")
    yield from _wrapped(f"departs in {departure.probe}: {departure.message}", "    ")
    part = "" if departure.accounts else " (this does not account for all of it)"
    if departure.seen:
        yield from _wrapped(f"against {named(departure.against)}: {departure.seen}{part}", "    ")
    if one.known_as:
        yield from _wrapped(f"known: {one.known_as}", "    ")


def _next(one: Identification, survey: Survey) -> Iterator[str]:
    if not one.known_as and one.probes:
        yield from _wrapped(f"next: {next_step(survey.target, one)}", "    ")


def _unsettled(told: list[Identification]) -> Iterator[str]:
    """What the probes leave open, each doubt once, with the losses that have it."""
    doubts: dict[tuple[str, str], list[str]] = {}
    for one in told:
        for doubt in unsettled(one):
            doubts.setdefault((doubt.choices, doubt.needed), []).append(f"{one.loss_type} {one.level}")
    if doubts:
        yield ""
        yield "  what no probe tells apart:"
    for (choices, needed), losses in doubts.items():
        yield from _wrapped(f"{', '.join(losses)}: {choices}", "    ")
        yield from _wrapped(f"it would take {needed}", "      ")


def _left_out(survey: Survey) -> Iterator[str]:
    refused: dict[str, list[str]] = {}
    for one in survey.found:
        if not one.probes and not one.failures:
            refused.setdefault("; ".join(one.refusals), []).append(f"{one.loss_type} {one.level}")
    if refused or survey.not_asked:
        yield ""
    for why, losses in refused.items():
        yield from _wrapped(f"unsupported: {', '.join(losses)}: {why}", "  ")
    if survey.not_asked:
        yield from _wrapped(f"not asked: {', '.join(survey.not_asked)}; lossgate run judges them", "  ")


def _summary(told: list[Identification]) -> str:
    named_right = sum(one.is_as_asked for one in told)
    known = sum(bool(one.known_as) for one in told)
    parts = [f"{named_right} of {len(told)} {'loss is' if len(told) == 1 else 'losses are'} as named"]
    parts += [f"{known} known to depart"] if known else []
    most = max(one.probes for one in told)
    each = f"at most {_probes(most)} each" if len(told) > 1 else _probes(most)
    return f"{', '.join(parts)} ({each})"


def _probes(count: int) -> str:
    return f"{count} probe{'' if count == 1 else 's'}"


def _wrapped(text: str, first: str, rest: str | None = None) -> Iterator[str]:
    later = first + "  " if rest is None else rest
    yield from textwrap.wrap(
        text,
        WIDTH,
        initial_indent=first,
        subsequent_indent=later,
        break_long_words=False,
        break_on_hyphens=False,
    )
