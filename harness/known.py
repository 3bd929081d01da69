"""Known divergences: what a target is known to do otherwise, read from `lossgate.toml`.

    [[known]]
    target = "trl"                              # a name, or a label such as "trl 1.16.0"
    loss_type = ["dapo", "cispo", "vespo"]      # a value or a list; what is left out matches all
    dtype = "float64"
    region = "window_beyond_float32"            # only cases in this region
    reason = "the token count is divided in float32"
    witness = "docs/witnesses/0123456789ab.json"

A case that diverges and matches is `known` instead: it stays visible, and does not fail the run.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from cases.dtypes import DTYPES
from cases.regions import REGIONS
from cases.spec import Level, LossType
from harness.errors import UsageError, did_you_mean
from reports.records import Cell

_CELL_KEYS: Final = ("loss_type", "level", "dtype", "beta")
_KEYS: Final = ("target", *_CELL_KEYS, "region", "reason", "witness", "link")
_VALUES: Final[dict[str, list[str]]] = {"loss_type": list(LossType), "level": list(Level), "dtype": list(DTYPES)}


@dataclass(frozen=True)
class Known:
    """One known divergence; an empty tuple or string matches everything."""

    target: str
    reason: str
    loss_type: tuple[str, ...] = ()
    level: tuple[str, ...] = ()
    dtype: tuple[str, ...] = ()
    beta: tuple[float, ...] = ()
    region: str = ""
    witness: str = ""
    link: str = ""

    def covers(self, cell: Cell, regions: tuple[str, ...]) -> bool:
        """Whether a case of a cell, in some regions, is meant."""
        named = self.target in (cell.target, cell.target.split(" ")[0])
        fits = all(not getattr(self, key) or getattr(cell, key) in getattr(self, key) for key in _CELL_KEYS)
        return named and fits and (not self.region or self.region in regions)


@dataclass(frozen=True)
class KnownDivergences:
    """The entries of one file, in its order; no file, no entries."""

    entries: tuple[Known, ...] = ()

    @classmethod
    def read(cls, entries: Any, where: str) -> KnownDivergences:
        """Read the entries of a file. Raises `UsageError` naming the file, the entry and the key that is wrong."""
        if not isinstance(entries, list):
            raise UsageError(f"{where}: known: takes entries that begin with [[known]]")
        return cls(tuple(_entry(entry, f"{where}: known entry {n}") for n, entry in enumerate(entries, 1)))

    @classmethod
    def from_facts(cls, entries: list[dict[str, Any]]) -> KnownDivergences:
        """The entries in the record of a run."""
        return cls(tuple(Known(**{key: _frozen(value) for key, value in entry.items()}) for entry in entries))

    def find(self, cell: Cell, regions: tuple[str, ...]) -> Known | None:
        """The first entry that covers a case."""
        return next((entry for entry in self.entries if entry.covers(cell, regions)), None)


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


NONE_KNOWN: Final = KnownDivergences()


def _entry(data: Any, where: str) -> Known:
    if not isinstance(data, Mapping):
        raise UsageError(f"{where}: takes keys {', '.join(_KEYS)}")
    for key in data:
        if key not in _KEYS:
            raise UsageError(f"{where}: no key {key!r}; takes {', '.join(_KEYS)}", did_you_mean(key, _KEYS))
    for key in ("target", "reason"):
        if not isinstance(data.get(key), str) or not data[key].strip():
            raise UsageError(f"{where}: {key}: is required, a text")
    values: dict[str, Any] = {key: tuple(_listed(data[key], key, where)) for key in _CELL_KEYS if key in data}
    for key in ("target", "reason", "region", "witness", "link"):
        if key in data:
            if not isinstance(data[key], str):
                raise UsageError(f"{where}: {key}: got {data[key]!r}, takes a text")
            values[key] = data[key]
    if values.get("region") and values["region"] not in REGIONS:
        raise UsageError(f"{where}: no region {values['region']!r}", did_you_mean(values["region"], list(REGIONS)))
    return Known(**values)


def _listed(value: Any, key: str, where: str) -> Iterator[Any]:
    if value == []:
        raise UsageError(f"{where}: {key}: got an empty list, takes one or more, or leave it out")
    for item in value if isinstance(value, list) else [value]:
        if key == "beta":
            if isinstance(item, bool) or not isinstance(item, int | float) or not 0 <= item < math.inf:
                raise UsageError(f"{where}: beta: got {item!r}, takes numbers")
            yield float(item)
        else:
            known = [str(name) for name in _VALUES[key]]
            if item not in known:
                raise UsageError(
                    f"{where}: {key}: got {item!r}, takes {', '.join(known)}", did_you_mean(str(item), known)
                )
            yield item
