"""At which tokens a gradient is wrong, and what it is there, where no formula explains a cell."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final

import numpy as np

from cases.dtypes import FloatArray
from cases.regions import Flags
from cases.tokens import Tokens
from harness.signature.evidence import Answered, Evidence
from harness.signature.explanation import Explanation

_EXACTLY: Final = 0.98
_TELLING: Final = 8.0
_CLOSE: Final = 1e-3


@dataclass(frozen=True, eq=False)
class _Judged:
    """The tokens of a case whose gradient tells: traits, whether it is wrong, got / expected, what that may be."""

    traits: dict[str, Flags]
    wrong: Flags
    ratio: FloatArray
    quantities: dict[str, FloatArray]


def tokens(evidence: Evidence) -> Iterator[Explanation]:
    """Where the gradient is wrong, if one trait of a token, or two, tell that from where it is right."""
    judged = [found for one in evidence if one.is_number and (found := _judged(one)) is not None]
    wrong = np.concatenate([one.wrong for one in judged]) if judged else np.zeros(0, dtype=bool)
    if not wrong.any() or wrong.all():
        return
    traits = {name: np.concatenate([one.traits[name] for one in judged]) for name in judged[0].traits}
    where = _trait(traits, wrong)
    if where:
        loss = [one.judgement.loss.ratio > 1.0 for one in evidence.numbers]
        too = "loss wrong, " if sum(loss) > len(loss) / 2 else ""
        yield Explanation(f"{too}{_what(judged)} at tokens {where}", _share(evidence))


def _share(evidence: Evidence) -> float:
    """How many of the failing cases show it: those whose loss alone is wrong do not."""
    failing = [one.judgement.gradient.ratio > 1.0 for one in evidence.numbers]
    return min(sum(failing) / max(len(failing), 1), 0.99)


def _judged(one: Answered) -> _Judged | None:
    got, mask = one.outcome.gradient, one.case.batch.mask
    if got is None or one.expectation.undecided or not mask.any():
        return None
    exact = one.expectation.gradients[0]
    error = exact.error(got)[mask]
    expected, bound = exact.high[mask], exact.bound[mask]
    # A gradient of 0 that is 0 says nothing of its factor.
    tells = (np.abs(expected) > _TELLING * bound) | (error > bound)
    tells &= np.isfinite(expected) & np.isfinite(got[mask]) & ~one.expectation.gradient_overflows[mask]
    if not tells.any():
        return None
    with np.errstate(all="ignore"):
        ratio = got[mask] / expected
        return _Judged(
            {name: flags[tells] for name, flags in _traits(one).items()},
            (error > bound)[tells],
            ratio[tells],
            {name: values[tells] for name, values in _quantities(one).items()},
        )


def _trait(traits: dict[str, Flags], wrong: Flags) -> str:
    """The trait of all wrong tokens and of no right one; else two traits; "" where there are none."""
    holding = {name: flags for name, flags in traits.items() if flags[wrong].mean() >= _EXACTLY}
    for count in (1, 2):
        found = []
        for names in combinations(holding, count):
            both = np.logical_and.reduce([holding[name] for name in names])
            if both.any() and wrong[both].mean() >= _EXACTLY:
                found.append((int(both.sum()), " and ".join(names)))
        if found:
            return max(found, key=lambda one: one[0])[1]
    return ""


def _what(judged: Sequence[_Judged]) -> str:
    wrong = np.concatenate([one.ratio[one.wrong] for one in judged])
    if (wrong == 0.0).all():
        return "gradient missing"
    if np.isinf(wrong).all():
        return "gradient where there should be none"
    named = [*_CONSTANTS, *judged[0].quantities]
    for name in named:
        if all(name in _CONSTANTS or name in one.quantities for one in judged):
            values = [
                np.full(int(one.wrong.sum()), _CONSTANTS[name])
                if name in _CONSTANTS
                else one.quantities[name][one.wrong]
                for one in judged
            ]
            if np.allclose(wrong, np.concatenate(values), rtol=_CLOSE, atol=0.0):
                return "gradient with the wrong sign" if name == "-1" else f"gradient x {name}"
    return "gradient wrong"


_CONSTANTS: Final = {"-1": -1.0, "2": 2.0, "1/2": 0.5}


def _quantities(one: Answered) -> dict[str, FloatArray]:
    tokens = Tokens(one.case)
    with np.errstate(all="ignore"):
        found = {"its ratio": tokens.ratio, "1 / (its ratio)": 1 / tokens.ratio, "its advantage": tokens.advantage}
    if tokens.importance.size:
        found["its importance ratio"] = tokens.importance
    return found


def _traits(one: Answered) -> dict[str, Flags]:
    case, mask = one.case, one.case.batch.mask
    t = Tokens(case)
    place = np.cumsum(mask, axis=1)[mask]
    lengths = np.broadcast_to(case.batch.lengths[:, None], mask.shape)[mask]
    above, below = t.above_high > 0, t.below_low > 0
    importance = t.importance if t.importance.size else np.ones(place.size)
    x = t.kl_log_ratio if t.kl_log_ratio.size else np.zeros(place.size)
    return {
        "with an advantage above 0": t.advantage > 0,
        "with an advantage below 0": t.advantage < 0,
        "with an advantage of 0": t.advantage == 0,
        "that the clip acts on": (above & (t.advantage > 0)) | (below & (t.advantage < 0)),
        "with a ratio above the upper clip bound": above,
        "with a ratio below the lower clip bound": below,
        "with a ratio inside the clip bounds": ~above & ~below,
        "whose ratio is outside the clip bounds and is kept": (above & (t.advantage < 0))
        | (below & (t.advantage > 0)),
        "with a ratio outside the clip bounds": above | below,
        "with a ratio above 1": t.ratio > 1,
        "with a ratio below 1": t.ratio < 1,
        "with a ratio above 3": t.ratio > 3,
        **{f"with a log-ratio beyond {bound}": np.abs(t.log_ratio) > bound for bound in (2, 3, 5, 10, 20)},
        "that come first in their completion": place == 1,
        "that come last in their completion": place == lengths,
        "that do not come first in their completion": place > 1,
        "that do not come last in their completion": place < lengths,
        "of completions of one token": lengths == 1,
        "of completions of several tokens": lengths > 1,
        "without old_logps": np.full(place.size, case.batch.old_logps is None),
        "with old_logps": np.full(place.size, case.batch.old_logps is not None),
        "with an importance ratio above 1": importance > 1,
        "with an importance ratio below 1": importance < 1,
        "with a reference more likely than the policy": x > 0,
        "with a reference less likely than the policy": x < 0,
        "with a reference within 0.01 of the policy": (np.abs(x) < 0.01) & (t.kl_log_ratio.size > 0),
        **_beyond(mask),
    }


def _beyond(mask: Flags) -> dict[str, Flags]:
    columns = np.broadcast_to(np.arange(mask.shape[1]), mask.shape)[mask]
    return {f"at position {place} or later": columns >= place for place in (4, 8, 16)}
