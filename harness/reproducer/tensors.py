"""The numbers of a case as assignments of torch tensors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import numpy as np

from cases.case import Case
from cases.dtypes import FloatArray
from cases.spec import LossType
from harness.reproducer.finding import Finding
from harness.reproducer.numbers import tensor, texts

NAMES: Final = ("logps", "old_logps", "ref_logps", "advantages", "mask", "sampling_logps", "importance_ratio")


def needed(case: Case) -> list[str]:
    """The tensors that the loss of a case is computed from."""
    spec, batch = case.spec, case.batch
    unread = {
        "ref_logps": spec.beta == 0,
        "sampling_logps": spec.off_policy_mask_threshold is None,
    }
    return [name for name in NAMES if getattr(batch, name) is not None and not unread.get(name, False)]


def assignments(
    finding: Finding, names: Iterable[str], mask_dtype: str, instead: Mapping[str, FloatArray] | None = None
) -> str:
    """A line or more for each tensor, by its name; `mask_dtype` is "bool" or "long".

    `instead` holds numbers to take in place of the case's.
    """
    taken = {**finding.instead, **(instead or {})}
    return "\n".join(_assignment(finding.case, name, mask_dtype, taken) for name in names)


def _assignment(case: Case, name: str, mask_dtype: str, instead: Mapping[str, FloatArray]) -> str:
    start = len(f"{name} = ")
    if name == "mask":
        yes, no = ("True", "False") if mask_dtype == "bool" else ("1", "0")
        return f"{name} = {tensor(np.where(case.batch.mask, yes, no).tolist(), start)}"
    values = instead.get(name, getattr(case.batch, name))
    options = [f"dtype=torch.{case.batch.dtype.name}"]
    if name == "logps":
        options.append("requires_grad=True")
    return f"{name} = {tensor(texts(values, case.batch.dtype), start, *options)}"


def ones_where_masked(case: Case) -> dict[str, FloatArray]:
    """For vespo: importance ratios as trainers make them, which are 1 at masked positions."""
    ratio = case.batch.importance_ratio
    if ratio is None or case.spec.loss_type is not LossType.VESPO:
        return {}
    return {"importance_ratio": np.where(case.batch.mask, ratio, 1.0)}
