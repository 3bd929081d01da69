"""The importance ratio of a token.

Sources: Schulman et al. 2017, arXiv 1707.06347; Zheng et al. 2025, arXiv 2507.18071 (the length-normalised ratio
of a completion, GSPO, and GSPO-token). Bounds of the log-ratio are a convention of libraries.
"""

from __future__ import annotations

from cases.conventions import SequenceGradient
from cases.spec import Level
from oracles.completions import Completion, Formula
from oracles.operations import clip, exp, stop_gradient
from oracles.scalar import Scalar


def ratios(completion: Completion, formula: Formula) -> list[Scalar]:
    r"""The importance ratio of every token.

    Token level: $r_{it} = \exp(\ell_{it} - \ell^{old}_{it})$. Sequence level: every token has
    $s_i = \exp\big(\frac{1}{n_i} \sum_t (\ell_{it} - \ell^{old}_{it})\big)$; GSPO-token has
    $\mathrm{sg}(s_i) \exp(\ell_{it} - \mathrm{sg}(\ell_{it}))$.
    """
    p = formula.parameters
    log_ratios = [token.logp - token.old_logp for token in completion]
    if p.spec.importance_sampling_level is Level.TOKEN:
        return [exp(clip(log_ratio, *p.log_ratio_bounds)) for log_ratio in log_ratios]
    mean = formula.total(log_ratios) / len(completion)
    if p.conventions.sequence_gradient is SequenceGradient.COMPLETION:
        return [exp(clip(mean, *p.log_ratio_bounds))] * len(completion)
    constant = stop_gradient(mean)
    own = [token.logp - stop_gradient(token.logp) + constant for token in completion]
    return [exp(clip(log_ratio, *p.log_ratio_bounds)) for log_ratio in own]
