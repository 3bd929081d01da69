"""What a user did wrong or lacks, as data: what happened, what is taken, what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence


class UsageError(ValueError):
    """Wrong usage or bad input: `message` says what, `hint` what to do about it (may be empty)."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


def unknown(kind: str, got: str, known: Iterable[str]) -> UsageError:
    """The error for a name that is not among the known ones, with the nearest of them."""
    names = [str(name) for name in known]
    return UsageError(f"no {kind} named {got!r}\n  known here: {', '.join(names)}", did_you_mean(got, names))


def did_you_mean(got: str, known: Sequence[str]) -> str:
    """A question that names what `got` is close to, or ""."""
    close = difflib.get_close_matches(got.lower(), known, n=1, cutoff=0.7)
    return f"did you mean {close[0]!r}?" if close else ""
