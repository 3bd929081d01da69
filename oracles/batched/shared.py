"""Token losses that several losses have in common: they differ only in how these are added up."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from cases.batch import Batch
from cases.case import Case
from cases.spec import LossSpec, LossType
from cases.split import Split
from oracles.batched.array import Array
from oracles.batched.edge import Flags
from oracles.batched.layout import Piece
from oracles.batched.tape import Tape
from oracles.contract import Contract

MOST: Final = 12
"""A run takes a batch with one beta after the other, in one loss after the other: as many as come in between."""

_CLIPPED: Final = (LossType.GRPO, LossType.BNPO, LossType.DR_GRPO, LossType.DAPO, LossType.LUSPO)


@dataclass(frozen=True, eq=False)
class Evaluated:
    """A piece: its token losses, KL terms averaged by themselves, and its tape."""

    piece: Piece
    tape: Tape
    leaf: Array
    losses: Array
    kl: Array | None
    jumps: Sequence[int]


@dataclass(frozen=True, eq=False)
class _Kept:
    batches: tuple[Batch, ...]
    done: Evaluated
    overflows: Flags
    overflowing: Flags | None


_Key = tuple[tuple[tuple[LossSpec, Split], ...], Contract, tuple[bool, ...]]


class Shared:
    """The latest evaluated pieces that are all of some cases."""

    def __init__(self) -> None:
        self._kept: OrderedDict[_Key, _Kept] = OrderedDict()

    def evaluated(
        self,
        cases: Sequence[Case],
        contract: Contract,
        assumed: tuple[bool, ...],
        evaluate: Callable[[], Evaluated],
    ) -> Evaluated:
        """The piece of some cases, as if nothing had been swept on its tape yet."""
        key = tuple((token_wise(case.spec), case.split) for case in cases), contract, assumed
        kept = self._kept.get(key)
        if kept is None or any(batch is not case.batch for batch, case in zip(kept.batches, cases, strict=True)):
            done, batches = evaluate(), tuple(case.batch for case in cases)
            overflows, overflowing = done.tape.overflows.copy(), _copy(done.tape.overflowing)
            kept = self._kept[key] = _Kept(batches, done, overflows, overflowing)
            while len(self._kept) > MOST:
                self._kept.popitem(last=False)
        # A sweep marks what overflows in it.
        kept.done.tape.overflows, kept.done.tape.overflowing = kept.overflows.copy(), _copy(kept.overflowing)
        return kept.done


@lru_cache(maxsize=4096)
def token_wise(spec: LossSpec) -> LossSpec:
    """The spec of a loss with the same token losses, one for all of them."""
    return replace(spec, loss_type=LossType.GRPO) if spec.loss_type in _CLIPPED else spec


def _copy(flags: Flags | None) -> Flags | None:
    return None if flags is None else flags.copy()
