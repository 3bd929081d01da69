"""The unmasked tokens of a case, with what the regions of input space are read off."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from cases.batch import Batch
from cases.case import Case
from cases.dtypes import FloatArray
from cases.spec import Level, LossType


class Tokens:
    """The unmasked tokens of a case as flat arrays, with the ratio at the case's level."""

    def __init__(self, case: Case) -> None:
        batch, spec = case.batch, case.spec
        self.case = case
        self.batch: Batch = batch
        self.mask = batch.mask
        log_ratios = batch.log_ratios
        # gmpo clips token by token at either level.
        if spec.importance_sampling_level is Level.SEQUENCE and spec.loss_type is not LossType.GMPO:
            lengths = np.maximum(batch.lengths, 1)
            means = np.where(batch.mask, log_ratios, 0.0).sum(axis=1) / lengths
            log_ratios = np.broadcast_to(means[:, None], log_ratios.shape)
        self.log_ratio: FloatArray = log_ratios[self.mask]
        self.advantage: FloatArray = batch.token_advantages[self.mask]
        self.low, self.high = spec.ratio_bounds

    @cached_property
    def kl_log_ratio(self) -> FloatArray:
        """`ref_logps - logps`; empty where the case has no KL term."""
        if self.batch.ref_logps is None or self.case.spec.beta == 0:
            return np.empty(0)
        return (self.batch.ref_logps - self.batch.logps)[self.mask]

    @cached_property
    def ratio(self) -> FloatArray:
        return np.exp(np.clip(self.log_ratio, -700.0, 700.0))

    @cached_property
    def above_high(self) -> FloatArray:
        """Distance above the upper bound in ulps of the bound; infinite where it overflows."""
        with np.errstate(over="ignore"):
            return (self.ratio - self.high) / self.batch.dtype.ulp(self.high)

    @cached_property
    def below_low(self) -> FloatArray:
        """Distance below the lower bound in ulps of the bound; -inf where there is no lower bound."""
        if self.low == 0.0:
            return np.full_like(self.ratio, -np.inf)
        with np.errstate(over="ignore"):
            return (self.low - self.ratio) / self.batch.dtype.ulp(self.low)

    @cached_property
    def drift(self) -> FloatArray:
        """Mean of `sampling_logps - logps` of each completion that has a token with a negative advantage."""
        sampled = self.batch.sampling_logps if self.batch.sampling_logps is not None else self.batch.old_logps
        evidence = (self.batch.logps if sampled is None else sampled) - self.batch.logps
        droppable = ((self.batch.token_advantages < 0) & self.mask).any(axis=1)
        return np.array([evidence[row][self.mask[row]].mean() for row in np.flatnonzero(droppable)])

    @cached_property
    def above_threshold(self) -> FloatArray:
        """Drift less the off-policy threshold; empty where the mask is off."""
        threshold = self.case.spec.off_policy_mask_threshold
        return np.empty(0) if threshold is None else self.drift - threshold

    @cached_property
    def importance(self) -> FloatArray:
        """Importance ratios of unmasked tokens; empty where there are none."""
        ratio = self.batch.token_importance_ratio
        return np.empty(0) if ratio is None else ratio[self.mask]

    @cached_property
    def above_delta(self) -> FloatArray:
        """Distance above delta in ulps of delta; empty where there is none."""
        delta = self.case.spec.delta
        if delta is None:
            return np.empty(0)
        with np.errstate(over="ignore"):
            return (self.ratio - delta) / self.batch.dtype.ulp(delta)

    @property
    def micro_batch_tokens(self) -> list[int]:
        """Unmasked tokens of each micro-batch of the judged step."""
        parts = (rows for rank in self.case.split.judged(self.batch.rows) for rows in rank)
        return [int(self.mask[list(rows)].sum()) for rows in parts]

    @property
    def window_share(self) -> float:
        """What dapo, cispo and vespo divide by on a rank where tokens are counted per generation batch."""
        split = self.case.split
        return self.batch.tokens / split.ranks * split.accumulation_steps / split.steps_per_generation

    @property
    def off_policy(self) -> bool:
        return self.batch.old_logps is not None
