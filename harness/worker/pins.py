"""torch's process-wide settings, which every case must find the same."""

from __future__ import annotations

import torch

DEFAULT_DTYPE = torch.float32
THREADS = 1
SEED = 0


def restore(seed: int = SEED) -> list[str]:
    """Pin default dtype, threads, grad mode and seed; a sentence for each that had been changed."""
    changed = []
    dtype = torch.get_default_dtype()
    if dtype != DEFAULT_DTYPE:
        changed.append(f"changed the default dtype to {dtype}; it was set back to {DEFAULT_DTYPE}")
        torch.set_default_dtype(DEFAULT_DTYPE)
    threads = torch.get_num_threads()
    if threads != THREADS:
        changed.append(f"changed the number of threads to {threads}; it was set back to {THREADS}")
        torch.set_num_threads(THREADS)
    if not torch.is_grad_enabled():
        changed.append("left gradients disabled; they were enabled again")
        torch.set_grad_enabled(True)
    _seed(seed)
    return changed


def _seed(seed: int) -> None:
    # What torch.manual_seed does, without the stack it formats on every call: that costs a tenth of a case.
    torch.default_generator.manual_seed(seed)
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(seed)
