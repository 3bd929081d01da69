"""How the command ends, for scripts and CI."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """Enumerated exit codes; `about` is the sentence for the documentation."""

    CONFORMS = 0
    DIVERGES = 1
    USAGE = 2
    UNAVAILABLE = 3
    INCOMPARABLE = 4
    BROKEN = 70
    INTERRUPTED = 130

    @property
    def about(self) -> str:
        """What the code means, as one sentence."""
        return _ABOUT[self]


_ABOUT = {
    ExitCode.CONFORMS: "no cell fails: overflow, known divergences and what is unsupported are shown",
    ExitCode.DIVERGES: (
        "a cell diverges, crashes, times out, raises or is nondeterministic, or an expectation is not met"
    ),
    ExitCode.USAGE: "wrong usage or bad input",
    ExitCode.UNAVAILABLE: "a target could not be started",
    ExitCode.INCOMPARABLE: "nothing of a target was compared, or a region that its loss needs was never hit",
    ExitCode.BROKEN: "a fault of lossgate itself: nothing is said of the target",
    ExitCode.INTERRUPTED: "interrupted; what was finished is on disk",
}
