"""The page of the seeded faults: which of them the cases of a run catch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from benchmarks.published.head import Head, grid
from reports.markdown import escape

SECTION: Final = "Seeded faults"
_LEGEND: Final = """\
Each fault is the formula with one deliberate mistake, put the cases of a run until one of them catches it. A
number is that of the first case of its cell that does; *padding* says that padding hygiene does; *drowned*,
that the change is less than rounding may change in that dtype; *equal*, that it changes nothing that counts;
*large*, that only large batches show it; nothing, that it is no fault in that dtype.
"""
_WORDS: Final = {"equivalent": "equal", "absent": "", "needs large batches": "large"}


def page(found: Mapping[str, Any], command: str, date: str, versions: Mapping[str, str]) -> str:
    """The page of what `lossgate faults --format json` printed."""
    return "\n".join(_lines(found, command, date, versions)) + "\n"


def _lines(found: Mapping[str, Any], command: str, date: str, versions: Mapping[str, str]) -> Iterator[str]:
    result = f"{found['score']}: profile {found['profile']}, seed {found['seed']}."
    yield from Head(SECTION, "Seeded faults", date, command, versions, result).lines()
    yield _LEGEND
    yield "`lossgate run fault:NAME` judges one of them as it judges a library."
    yield ""
    dtypes = list(found["faults"][0]["dtypes"])
    rows = [
        [f"`{one['name']}`", escape(one["wrong"]), *(_word(one["dtypes"].get(dtype, {})) for dtype in dtypes)]
        for one in found["faults"]
    ]
    yield from grid(["fault", "what is wrong", *dtypes], rows)


def _word(one: Mapping[str, Any]) -> str:
    fate = one.get("fate", "")
    if fate == "caught":
        return str(one["case"] or one["phase"])
    return _WORDS.get(fate, str(fate))
