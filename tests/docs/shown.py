"""What a page shows, held against what was printed."""

from __future__ import annotations

import re

from tests.docs.session import RUN

_PASSING = re.compile(r"(.* (?:conforms|overflow))  .*")
_GAP = "..."


def differences(printed: str, shown: str) -> str:
    """What was printed otherwise than shown, or "".

    `...` alone on a line stands for any lines. Not compared: in which folder a run lies, how wide columns are, and
    what depends on how a processor rounds: how near a cell that does not diverge came to its bound, and where.
    """
    found, meant = _comparable(printed), _comparable(shown)
    place = 0
    pieces = _split(meant)
    for number, piece in enumerate(pieces):
        last = number == len(pieces) - 1
        if number == 0:
            start = 0
        elif last:
            start = len(found) - len(piece)
        else:
            start = next((at for at in range(place, len(found)) if found[at : at + len(piece)] == piece), -1)
        if start < place or found[start : start + len(piece)] != piece:
            return _told(meant, found)
        place = start + len(piece)
    return "" if place == len(found) else _told(meant, found)


def _told(meant: list[str], found: list[str]) -> str:
    return "\n".join(("the page shows", *meant, "", "printed was", *found))


def _split(lines: list[str]) -> list[list[str]]:
    pieces: list[list[str]] = [[]]
    for line in lines:
        if line == _GAP:
            pieces.append([])
        else:
            pieces[-1].append(line)
    return pieces


def _comparable(text: str) -> list[str]:
    lines = (RUN.sub("lossgate-runs/RUN", line) for line in text.splitlines())
    return [" ".join(_PASSING.sub(r"\1", line).split()) for line in lines]
