"""The entries of the corpus, by what they are about: a new one is an entry here, a stored case, and a test."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from cases.conventions import PaddingPromise
from cases.corpus.entry import Entry
from cases.descriptions import Advantage, Description, Horizon, Layout, Ratio, Row
from cases.spec import Level, LossType
from cases.split import Split

_UP, _DOWN = Advantage.POSITIVE, Advantage.NEGATIVE
_INSIDE, _ABOVE = (Ratio.INSIDE,), (Ratio.ABOVE_HIGH, Ratio.INSIDE)
_EMPTY: Final = Row(Layout.EMPTY)
_SHORT: Final = Row(Layout.PREFIX, 1, _INSIDE, advantage=_UP)
_LONG: Final = Row(Layout.FULL, 1, _ABOVE, advantage=_DOWN)
_RAGGED: Final = (_SHORT, _LONG)
_PADDED: Final = (_SHORT, Row(Layout.PREFIX, 2, _ABOVE, advantage=_DOWN))

_STEP_MEANS: Final = (LossType.DAPO, LossType.CISPO, LossType.VESPO)
_TOKEN_MEANS: Final = (LossType.BNPO, *_STEP_MEANS)
_ROW_MEANS: Final = (LossType.GRPO, LossType.SAPO)
_RATIOS: Final = tuple(one for one in LossType if one not in (LossType.VESPO, LossType.GMPO))
_MULTIPLYING: Final = tuple(one for one in LossType if one is not LossType.GMPO)
_UNBOUNDED: Final = tuple(one for one in LossType if one.clips or one is LossType.SAPO)

_DIVISORS: Final = (
    Entry(
        "generation_tokens",
        "the divisor counts the tokens of the whole generation batch, where one optimizer step takes a part of it",
        ("https://github.com/huggingface/trl/issues/5619", "https://github.com/huggingface/trl/pull/6024"),
        ("trl 0.22.0 to 1.9.0",),
        Description(_RAGGED, columns=3, split=Split(steps_per_generation=2)),
        _STEP_MEANS,
        fault="step_generation_tokens",
    ),
    Entry(
        "divided_twice",
        "the sum over a micro-batch is divided by the tokens of the step and by the accumulation steps",
        ("https://github.com/modelscope/ms-swift/issues/10117",),
        ("ms-swift, its main branch of September 2026",),
        Description(_RAGGED, columns=3, split=Split(accumulation_steps=2, steps_per_generation=2)),
        _STEP_MEANS,
        fault="step_divided_twice",
    ),
    Entry(
        "dr_grpo_without_rows",
        "the sum over all tokens is divided by the length of a completion and not by their number",
        ("https://github.com/verl-project/verl/issues/3741",),
        ("verl 0.4.0 to 0.7.0",),
        Description(_RAGGED, columns=3, horizon=Horizon.WIDTH),
        (LossType.DR_GRPO,),
        fault="dr_without_rows",
    ),
    Entry(
        "grpo_as_token_mean",
        "one divisor for all tokens of the batch, where each completion has a mean of its own",
        ("https://github.com/huggingface/trl/pull/3395", "https://github.com/huggingface/trl/issues/3187"),
        ("trl 0.16.0, 0.16.1", "the documentation of trl"),
        Description(_RAGGED, columns=3),
        (LossType.GRPO,),
        fault="grpo_as_bnpo",
    ),
)

_MASKS: Final = (
    Entry(
        "luspo_unmasked",
        "token losses are multiplied by the length of their completion and averaged over all positions, padding "
        "included",
        ("https://github.com/huggingface/trl/pull/6654", "https://github.com/unslothai/unsloth-zoo/pull/1282"),
        ("trl 0.28.0 to 1.9.2", "liger 0.8.0 on", "unsloth to 2026.9", "axolotl 0.21.0"),
        Description(_RAGGED, columns=3),
        (LossType.LUSPO,),
        fault="luspo_padding",
    ),
    Entry(
        "masked_tokens_added",
        "the sum takes token losses at masked positions, too; the divisor counts the unmasked ones",
        ("https://github.com/alibaba/ROLL/pull/444",),
        ("ROLL, its main branch of May 2026",),
        Description(_PADDED, columns=3),
        _TOKEN_MEANS,
        fault="masked_too",
    ),
)

_NOTHING_TO_AVERAGE: Final = (
    Entry(
        "no_tokens",
        "a step in which every token is masked divides 0 by 0",
        (
            "https://github.com/huggingface/trl/pull/6439",
            "https://github.com/huggingface/trl/pull/3248",
            "https://github.com/unslothai/unsloth-zoo/pull/1286",
        ),
        ("trl 0.16.0, 0.16.1, 0.22.0 to 1.8.0", "unsloth to 2026.9", "verl 0.9.1", "openrlhf to 0.11.2"),
        Description((_EMPTY, _EMPTY), columns=2),
        _TOKEN_MEANS,
        fault="no_min1",
    ),
    Entry(
        "empty_row",
        "the mean over a completion without tokens divides 0 by 0, beside completions that have some",
        ("https://github.com/verl-project/verl/releases/tag/v0.6.0",),
        ("trl 0.14.0, 0.15.0 to 0.15.2", "verl to 0.6.0", "openrlhf to 0.10.2"),
        Description((_EMPTY, *_RAGGED), columns=3),
        _ROW_MEANS,
        fault="no_min1",
    ),
    Entry(
        "empty_row_ratio",
        "the mean log-ratio of a completion without tokens divides 0 by 0, and masking its NaN leaves it NaN",
        ("https://github.com/OpenRLHF/OpenRLHF/releases/tag/v0.10.2",),
        ("openrlhf 0.8.8 to 0.10.2",),
        Description((_LONG, _EMPTY), columns=2),
        _RATIOS,
        (Level.SEQUENCE,),
        fault="seq_no_min1",
    ),
)

_NOT_FINITE: Final = (
    Entry(
        "masked_infinity",
        "the ratio at a masked position overflows, and infinity times 0 is NaN",
        ("https://github.com/MakazhanAlpamys/Soup/issues/342", "https://github.com/NVIDIA-NeMo/RL/pull/4120"),
        ("trl 0.14.0 on",),
        Description(_PADDED, columns=3),
        _UNBOUNDED,
        fault="padding_times_0",
        masked=(PaddingPromise.INF, "old_logps"),
    ),
    Entry(
        "masked_nan",
        "NaN at a masked position of old_logps is multiplied by 0, which leaves it NaN",
        (
            "https://github.com/OpenRLHF/OpenRLHF/pull/1240",
            "https://github.com/verl-project/verl/pull/6349",
        ),
        ("openrlhf to 0.11.2",),
        Description(_PADDED, columns=3),
        _MULTIPLYING,
        fault="padding_times_0",
        masked=(PaddingPromise.NAN, "old_logps"),
    ),
    Entry(
        "masked_nan_reference",
        "NaN at a masked position of ref_logps is multiplied by 0 in the KL term, which leaves it NaN",
        ("https://github.com/NovaSky-AI/SkyRL/issues/1633",),
        ("skyrl 0.1.0, 0.2.0",),
        Description(_PADDED, columns=3),
        _MULTIPLYING,
        fault="padding_kl_times_0",
        masked=(PaddingPromise.NAN, "ref_logps"),
    ),
)

_BEFORE_THE_LOSS: Final = (
    Entry(
        "scale_rewards_exchanged",
        "rewards are divided by the deviation of their group where that of the batch is asked for, and by nothing "
        "where that of the group is",
        ("https://github.com/huggingface/trl/issues/3991",),
        ("trl 0.22.0, 0.22.1",),
        stage="advantages",
    ),
    Entry(
        "truncated_tokens_counted",
        "the divisor counts the tokens of truncated completions, which the sum leaves out",
        ("https://github.com/huggingface/trl/issues/6369", "https://github.com/huggingface/trl/pull/6439"),
        ("trl 0.22.0 to 1.8.0",),
        stage="generation",
    ),
)

ENTRIES: Final = (*_DIVISORS, *_MASKS, *_NOTHING_TO_AVERAGE, *_NOT_FINITE, *_BEFORE_THE_LOSS)


def judged() -> Iterator[tuple[Entry, Description]]:
    """The entries whose case shows the fault by itself: the first phase of every run."""
    for entry in ENTRIES:
        if entry.description is not None and entry.masked is None:
            yield entry, entry.description
