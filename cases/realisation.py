"""From a description to numbers: deterministic, once per dtype and level, so that the region holds there."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

import numpy as np

from cases.batch import Batch, Mask
from cases.descriptions import (
    Advantage,
    Description,
    Importance,
    Layout,
    OffPolicyMask,
    Ratio,
    Reference,
    Row,
)
from cases.dtypes import DType, FloatArray
from cases.hyperparameters import delta_of
from cases.large import MOST_POSITIONS
from cases.spec import Level

GARBAGE_LOG_RATIO: Final = 5.0
LARGEST_GARBAGE_LOGP: Final = 8.0
LARGEST_IMPORTANCE_RATIO: Final = 2.5
USUAL_DUAL_CLIP: Final = 3.0

Random = np.random.Generator


def realise(description: Description, dtype: DType, level: Level) -> Batch:
    """Fill a description in for one dtype and level.

    Equal arguments give equal numbers, and every number is exactly representable in `dtype`.
    """
    random = np.random.Generator(np.random.PCG64(description.seed))
    rows = _rows(description)
    mask = np.array([_layout(row, description.columns, random) for row in rows])
    logps, old_logps, ref_logps, advantages = (np.empty(mask.shape) for _ in range(4))
    for i, row in enumerate(rows):
        advantages[i] = _advantages(row, description, dtype, random)
        reach = _garbage_reach(advantages[i], dtype)
        log_ratios = _log_ratios(row, description, mask[i], reach, dtype, level, random)
        logps[i], old_logps[i] = _policies(log_ratios, description, dtype, random)
        if level is Level.SEQUENCE:
            _settle_mean(logps[i], old_logps[i], mask[i], float(log_ratios[mask[i]].sum()), dtype)
        ref_logps[i] = dtype.round(logps[i] + _ref_log_ratios(row, logps[i], mask[i], dtype, random))
    old = None if description.on_policy else old_logps
    return Batch(
        dtype=dtype,
        logps=logps,
        old_logps=old,
        ref_logps=ref_logps,
        advantages=advantages if description.token_advantages else advantages[:, 0],
        mask=mask,
        sampling_logps=_sampling_logps(description, logps if old is None else old, dtype, random),
        importance_ratio=_importance_ratio(description, mask, dtype, random),
    )


def _rows(description: Description) -> list[Row]:
    """The rows, taken again as often as the split needs; a copy has another length, so that counts differ."""
    columns, given = description.columns, description.rows
    rows = []
    for number in range(description.row_count):
        copies, row = number // len(given), given[number % len(given)]
        if copies:
            layout = Layout.PREFIX if row.layout is Layout.FULL else row.layout
            row = replace(row, layout=layout, length=1 + (row.length + copies) % columns)
        rows.append(row)
    return rows


def _sampling_logps(
    description: Description, old_logps: FloatArray, dtype: DType, random: Random
) -> FloatArray | None:
    noise = random.uniform(-1.0, 1.0, old_logps.shape)
    if description.off_policy_mask not in (OffPolicyMask.SAMPLING, OffPolicyMask.AT_THRESHOLD):
        return None
    return dtype.round(old_logps + noise)


def _importance_ratio(description: Description, mask: Mask, dtype: DType, random: Random) -> FloatArray | None:
    """Constant factors around 1; one in five is 0, as a masking mode makes them."""
    size = random.uniform(0.25, LARGEST_IMPORTANCE_RATIO, mask.shape)
    zero = random.uniform(0.0, 1.0, mask.shape) < 0.2
    ratios = dtype.round(np.where(zero, 0.0, size))
    match description.importance:
        case Importance.NONE:
            return None
        case Importance.PER_TOKEN:
            return ratios
        case Importance.PER_ROW:
            return ratios[:, :1]


def _layout(row: Row, columns: int, random: Random) -> Mask:
    length = min(row.length, columns)
    mask = np.zeros(columns, dtype=bool)
    order = random.permutation(columns)
    match row.layout:
        case Layout.FULL:
            mask[:] = True
        case Layout.PREFIX:
            mask[:length] = True
        case Layout.LEFT_PADDED:
            mask[columns - length :] = True
        case Layout.HOLES:
            mask[order[:length]] = True
        case Layout.EMPTY:
            pass
    return mask


def _log_ratio(
    region: Ratio, row: Row, description: Description, dtype: DType, share: FloatArray, sign: FloatArray
) -> FloatArray | float:
    """Log-ratios in a region, one for each `share` of its width and `sign` of its side."""
    epsilon_low, epsilon_high = description.bounds.value
    low, high = math.log1p(-epsilon_low), math.log1p(epsilon_high)
    overflow = math.log(dtype.largest)
    # One ulp of a ratio near 1 is 2u; log-ratios are moved by as much.
    ulp = 2.0 * dtype.unit_roundoff
    match region:
        case Ratio.INSIDE:
            return 0.8 * share * np.where(sign > 0, high, low)
        case Ratio.AT_HIGH:
            return high + row.ulps * ulp
        case Ratio.AT_LOW:
            return low + row.ulps * ulp
        case Ratio.JUST_ABOVE_HIGH:
            return high + (8 + 24 * share) * ulp
        case Ratio.JUST_BELOW_LOW:
            return low - (8 + 24 * share) * ulp
        case Ratio.ABOVE_HIGH:
            return high + 0.05 + share
        case Ratio.BELOW_LOW:
            return low - 0.05 - share
        case Ratio.FAR_ABOVE:
            return high + 1.2 + 4.0 * share
        case Ratio.FAR_BELOW:
            return low - 1.2 - 16.0 * share
        case Ratio.ONE:
            return 0.0
        case Ratio.AT_DELTA:
            return math.log(delta_of(description)) + row.ulps * ulp
        case Ratio.AT_DUAL_CLIP:
            return math.log(USUAL_DUAL_CLIP) + row.ulps * ulp
        case Ratio.BEYOND_20:
            size = 20.5 + 20.0 * share
            # Where the dtype has no room for such a ratio, its inverse has.
            return np.where(size < overflow - 12.0, size, -size)
        case Ratio.BEYOND_MINUS_20:
            return -20.5 - 20.0 * share
        case Ratio.OVERFLOW:
            return overflow + 1.0 + 4.0 * share


def _places(count: int, random: Random) -> tuple[FloatArray, FloatArray]:
    """Share and sign of `count` log-ratios, for `_log_ratio`."""
    if count > MOST_POSITIONS:
        return random.uniform(0.1, 1.0, count), random.choice([-1.0, 1.0], count)
    # One by one, in this order: the numbers, and with them the ids, of all smaller cases hang on it.
    drawn = [(random.uniform(0.1, 1.0), random.choice([-1.0, 1.0])) for _ in range(count)]
    return np.array([share for share, _ in drawn]), np.array([sign for _, sign in drawn])


def _garbage_reach(advantages: FloatArray, dtype: DType) -> float:
    """Largest log-ratio at masked positions: no product that a loss forms there may overflow."""
    others = LARGEST_IMPORTANCE_RATIO * LARGEST_GARBAGE_LOGP * max(1.0, float(np.abs(advantages).max()))
    return min(GARBAGE_LOG_RATIO, math.log(dtype.largest / 1.5 / others))


def _log_ratios(
    row: Row,
    description: Description,
    mask: Mask,
    reach: float,
    dtype: DType,
    level: Level,
    random: Random,
) -> FloatArray:
    """Log-ratios of one completion; at sequence level their mean is the region's, the tokens scatter."""
    columns = description.columns
    garbage = random.uniform(-reach, reach, columns)
    scatter = random.uniform(-0.5, 0.5, columns)
    if level is Level.SEQUENCE:
        mean = _log_ratio(row.ratios[0], row, description, dtype, *_places(1, random))
        wanted = mean + scatter - (scatter[mask].mean() if mask.any() else 0.0)
    else:
        share, sign = _places(columns, random)
        wanted = np.empty(columns)
        for first, region in enumerate(row.ratios):
            turn = slice(first, None, len(row.ratios))
            wanted[turn] = _log_ratio(region, row, description, dtype, share[turn], sign[turn])
    return np.where(mask, wanted, garbage)


def _policies(
    log_ratios: FloatArray, description: Description, dtype: DType, random: Random
) -> tuple[FloatArray, FloatArray]:
    """Current and old log-probabilities whose difference is the log-ratio, neither above 0 but by rounding.

    The larger of the two stays so close to 0 that rounding it moves the ratio by far less than the clip
    range: the coarser the dtype and the narrower the range, the closer.
    """
    epsilon_low, epsilon_high = description.bounds.value
    reach = min(3.0, 0.02 * min(epsilon_low, epsilon_high) / dtype.unit_roundoff)
    offset = random.uniform(0.02, 1.0, log_ratios.size) * reach
    # A token that is certain: its log-probability is 0 under both policies.
    offset = np.where((log_ratios == 0.0) & (offset > reach / 2), 0.0, offset)
    logps = dtype.round(np.minimum(log_ratios, 0.0) - offset)
    return logps, dtype.round(logps - log_ratios)


def _settle_mean(logps: FloatArray, old_logps: FloatArray, mask: Mask, wanted: float, dtype: DType) -> None:
    """Move one old log-probability so that the unmasked log-ratios add up to `wanted` as nearly as they can."""
    if not mask.any():
        return
    unmasked = np.flatnonzero(mask)
    # The one closest to 0 is stored most finely.
    free = unmasked[np.argmin(np.abs(old_logps[unmasked]))]
    rest = [t for t in unmasked if t != free]
    missing = wanted - math.fsum(logps[rest]) + math.fsum(old_logps[rest])
    old_logps[free] = dtype.round(logps[free] - missing)


def _ref_log_ratios(row: Row, logps: FloatArray, mask: Mask, dtype: DType, random: Random) -> FloatArray:
    """`ref_logps - logps` of one completion, by its region; masked positions hold garbage."""
    columns = logps.size
    share = random.uniform(0.1, 1.0, columns)
    sign = random.choice([-1.0, 1.0], columns)
    match row.reference:
        case Reference.TYPICAL:
            wanted = sign * share
        case Reference.EQUAL:
            wanted = np.zeros(columns)
        case Reference.NEAR:
            # From a hundredth down to the spacing of the numbers, evenly on a logarithmic scale.
            spacing = np.minimum(dtype.ulp(logps), 0.008)
            wanted = sign * 0.008 * np.power(spacing / 0.008, (share - 0.1) / 0.9)
        case Reference.ABOVE:
            wanted = 2.8 + 2.0 * share
        case Reference.BELOW:
            wanted = -11.5 - 4.0 * share
        case Reference.FAR_ABOVE:
            # Beyond the clamps at 20 that some implementations have, where the dtype has room for e^20.
            wanted = 20.5 + 4.0 * share if dtype.largest > 1e30 else 6.0 + 2.0 * share
        case Reference.FAR_BELOW:
            wanted = -20.5 - 10.0 * share
    return np.where(mask, wanted, GARBAGE_LOG_RATIO * sign * share)


def _advantages(row: Row, description: Description, dtype: DType, random: Random) -> FloatArray:
    """Advantages of one completion: one value, or per token with the row's kind and mixed signs."""
    columns = description.columns
    count = columns if description.token_advantages else 1
    size = random.uniform(0.2, 2.0, columns)[:count]
    sign = random.choice([-1.0, 1.0], columns)[:count]
    exponent = random.uniform(0.0, 1.0, columns)[:count]
    match row.advantage:
        case Advantage.POSITIVE:
            values = size
        case Advantage.NEGATIVE:
            values = -size
        case Advantage.ZERO:
            values = np.zeros(count)
        case Advantage.DYADIC:
            values = sign * np.maximum(np.rint(8 * size), 1) / 8
        case Advantage.HUGE:
            # As far as the dtype leaves room for the other factors of a loss.
            values = sign * np.minimum(1e3 * (1 + 4 * size), dtype.largest / 64)
        case Advantage.TINY:
            # Down to 1e-30, or to where the dtype still holds normal numbers.
            smallest = max(-30.0, dtype.min_exponent * math.log10(2.0))
            values = sign * 10.0 ** (smallest + (-4.0 - smallest) * exponent)
    if description.token_advantages and row.advantage is not Advantage.ZERO:
        # One position in three takes the other sign.
        values = np.where(np.arange(count) % 3 == 2, -values, values)
    return dtype.round(np.broadcast_to(values, columns))
