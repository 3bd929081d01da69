"""torch's process-wide settings, which every case must find the same."""

from __future__ import annotations

import torch

DEFAULT_DTYPE = torch.float32
SEED = 0

_threads = 1


def threads() -> int:
    """How many threads torch is held to."""
    return _threads


def hold_threads(count: int) -> None:
    """Hold torch to another number of threads from now on."""
    global _threads
    _threads = count
    torch.set_num_threads(count)


def restore(seed: int = SEED) -> list[str]:
    """Pin default dtype, threads, grad mode and seed; a sentence for each that had been changed."""
    changed = []
    dtype = torch.get_default_dtype()
    if dtype != DEFAULT_DTYPE:
        changed.append(f"changed the default dtype to {dtype}; it was set back to {DEFAULT_DTYPE}")
        torch.set_default_dtype(DEFAULT_DTYPE)
    found = torch.get_num_threads()
    if found != _threads:
        changed.append(f"changed the number of threads to {found}; it was set back to {_threads}")
        torch.set_num_threads(_threads)
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
