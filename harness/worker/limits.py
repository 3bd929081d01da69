"""What a target's process may take: memory, and the size of a file that it writes."""

from __future__ import annotations

import errno
import resource
import sys

LARGEST_FILE = 2**30
"""Bytes; what is printed goes to a file, which must not fill the disk while nobody looks."""

_OUT_OF_MEMORY = ("can't allocate memory", "cannot allocate memory", "not enough memory", "bad_alloc")


def restrict(memory: int | None) -> None:
    """Limit what this process may allocate, in bytes (None: no limit), and the size of the files it writes.

    Each of its children inherits the limits for itself. Beyond them an allocation or a write raises. A lower limit
    that is set already stays; where the platform cannot limit allocations, they are not limited.
    """
    # Elsewhere the limit of this name leaves out most of what is allocated.
    if memory is not None and sys.platform == "linux":
        _lower(resource.RLIMIT_DATA, memory)
    _lower(resource.RLIMIT_FSIZE, LARGEST_FILE)


def _lower(kind: int, value: int) -> None:
    soft, hard = resource.getrlimit(kind)
    if not 0 <= soft <= value:
        resource.setrlimit(kind, (value if hard < 0 else min(value, hard), hard))


def exceeded(error: BaseException) -> str:
    """The limit that an error is due to, in words that continue a sentence about the target; "" for none."""
    if isinstance(error, OSError) and error.errno == errno.EFBIG:
        return f"wrote more than {LARGEST_FILE / 2**30:g} GB to one file"
    allowed, _ = resource.getrlimit(resource.RLIMIT_DATA)
    if allowed != resource.RLIM_INFINITY and _is_out_of_memory(error):
        return f"ran out of memory: it may allocate {allowed / 2**30:.3g} GB (--memory)"
    return ""


def _is_out_of_memory(error: BaseException) -> bool:
    """Whether an allocation failed, in Python, in torch or in the system."""
    if isinstance(error, (MemoryError, OSError)):
        return isinstance(error, MemoryError) or error.errno == errno.ENOMEM
    return isinstance(error, RuntimeError) and any(words in str(error).lower() for words in _OUT_OF_MEMORY)
