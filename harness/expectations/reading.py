"""The `[[expect]]` entries of a configuration file.

[[expect]]
target = "trl"                              # a name, or the beginning of a label
version = ">=1.9,<2"                        # of the target, as PEP 440 writes ranges
loss_type = ["dapo", "cispo", "vespo"]      # a value or a list; what is left out matches all
dtype = "float64"
region = "window_beyond_float32"            # only cases in this region
signature = "the number of tokens x 1.0000001"
range = [1e5, 1e9]                          # of the worst error / bound of a cell; or by dtype, as a table
reason = "the token count is divided in float32"
expires = 2027-06-30
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from datetime import date, datetime
from typing import Any, Final

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from cases.dtypes import DTYPES
from cases.regions import REGIONS
from cases.spec import Level, LossType
from harness.errors import did_you_mean
from harness.expectations.entry import CELL_KEYS, Expect, Expectations, Span
from harness.toml_place import Place

_TEXTS: Final = ("target", "version", "region", "signature", "reason", "link", "witness")
_REQUIRED: Final = ("target", "reason")
_KEYS: Final = (
    "target",
    "version",
    *CELL_KEYS,
    "region",
    "signature",
    "range",
    "reason",
    "link",
    "witness",
    "expires",
    "generated",
)
_VALUES: Final[dict[str, list[str]]] = {
    "loss_type": [str(one) for one in LossType],
    "level": [str(one) for one in Level],
    "dtype": list(DTYPES),
}


def read(data: Any, place: Place) -> Expectations:
    """The entries under the key `expect`. Raises `UsageError` naming file, line, entry and key if one is wrong."""
    if not isinstance(data, list):
        raise place.wrong("expect: takes entries that begin with [[expect]]")
    entries = [
        _entry(entry, place.at(number, name=f"expect entry {number + 1}"), number + 1)
        for number, entry in enumerate(data)
    ]
    # What a person wrote is asked before what was generated, wherever it stands.
    return Expectations(tuple(sorted(entries, key=lambda entry: entry.generated)))


def _entry(data: Any, place: Place, number: int) -> Expect:
    if not isinstance(data, Mapping):
        raise place.wrong(f"takes keys {', '.join(_KEYS)}")
    place.check_keys(data, _KEYS)
    for key in _REQUIRED:
        if key not in data:
            raise place.wrong(f"{key}: is required, a text")
    for key in _TEXTS:
        if key in data and (not isinstance(data[key], str) or not data[key].strip()):
            raise place.at(key).wrong(f"{key}: got {data[key]!r}, takes a text")
    values: dict[str, Any] = {key: data[key] for key in _TEXTS if key in data}
    values |= {key: tuple(_listed(data[key], key, place.at(key))) for key in CELL_KEYS if key in data}
    if "region" in values and values["region"] not in REGIONS:
        hint = did_you_mean(values["region"], list(REGIONS))
        raise place.at("region").wrong(f"region: no region {values['region']!r}", hint)
    if "version" in values:
        _check_version(values["version"], place.at("version"))
    if "range" in data:
        values["spans"] = tuple(_spans(data["range"], place.at("range")))
    if "expires" in data:
        # A datetime is a date to Python, and a day is meant.
        if not isinstance(data["expires"], date) or isinstance(data["expires"], datetime):
            raise place.at("expires").wrong(f"expires: got {data['expires']!r}, takes a date such as 2027-06-30")
        values["expires"] = data["expires"]
    if not isinstance(data.get("generated", False), bool):
        raise place.at("generated").wrong(f"generated: got {data['generated']!r}, takes true or false")
    return Expect(number=number, line=place.lines[0], generated=data.get("generated", False), **values)


def _check_version(text: str, place: Place) -> None:
    try:
        SpecifierSet(text)
    except InvalidSpecifier:
        hint = f'did you mean "=={text}"?' if text[:1].isdigit() else ""
        raise place.wrong(f'version: got {text!r}, takes a range such as ">=1.9,<2"', hint) from None


def _listed(value: Any, key: str, place: Place) -> Iterator[Any]:
    if value == []:
        raise place.wrong(f"{key}: got an empty list, takes one or more, or leave it out")
    for item in value if isinstance(value, list) else [value]:
        if key == "beta":
            if not _is_number(item) or not 0 <= item < math.inf:
                raise place.wrong(f"beta: got {item!r}, takes numbers of at least 0")
            yield float(item)
        else:
            if item not in _VALUES[key]:
                taken = ", ".join(_VALUES[key])
                raise place.wrong(f"{key}: got {item!r}, takes {taken}", did_you_mean(str(item), _VALUES[key]))
            yield item


def _spans(value: Any, place: Place) -> Iterator[Span]:
    for dtype, pair in value.items() if isinstance(value, Mapping) else [("", value)]:
        if dtype and dtype not in DTYPES:
            raise place.wrong(f"range: no dtype {dtype!r}", did_you_mean(dtype, list(DTYPES)))
        takes = "takes [lowest, highest] error / bound, or a table of such pairs by dtype"
        if not isinstance(pair, list) or len(pair) != 2 or not all(map(_is_number, pair)):
            raise place.wrong(f"range: got {pair!r}, {takes}")
        low, high = map(float, pair)
        if not 0 <= low <= high:
            raise place.wrong(f"range: got {pair!r}, takes a lowest that is at least 0 and at most the highest")
        yield Span(low, high, dtype)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and not math.isnan(value)
