"""Long arrays as text: their bytes, compressed, where a number a position would take tens of megabytes."""

from __future__ import annotations

import base64
import math
import zlib
from typing import Any, Final

import numpy as np
import numpy.typing as npt

MOST_NUMBERS: Final = 2**26
"""No array of a case is larger: what claims to be is refused before there is memory for it."""

_KINDS: Final = {"float64": "<f8", "bool": "|b1"}


def packed(values: npt.NDArray[Any]) -> dict[str, Any]:
    """An array of float64 or bool as JSON data: kind, shape, and its little-endian bytes, by zlib and base64."""
    kind = values.dtype.name
    data = zlib.compress(np.ascontiguousarray(values, dtype=_KINDS[kind]).tobytes())
    return {"packed": kind, "shape": list(values.shape), "data": base64.b64encode(data).decode("ascii")}


def unpacked(name: str, content: dict[str, Any]) -> npt.NDArray[Any]:
    """What `packed` made. Raises `ValueError` that begins with `name` where it is something else."""
    kind, shape, data = (content.get(key) for key in ("packed", "shape", "data"))
    if not isinstance(kind, str) or kind not in _KINDS:
        raise ValueError(f"{name}: got a packed array of {kind!r:.40}, takes one of {', '.join(_KINDS)}")
    if not isinstance(shape, list) or not all(type(size) is int and size >= 0 for size in shape):
        raise ValueError(f"{name}: got a packed array of shape {shape!r:.40}, takes a list of sizes")
    if math.prod(shape) > MOST_NUMBERS:
        raise ValueError(f"{name}: got a packed array of {math.prod(shape):,} numbers, takes {MOST_NUMBERS:,}")
    wanted = math.prod(shape) * np.dtype(_KINDS[kind]).itemsize
    try:
        stream = zlib.decompressobj()
        found = stream.decompress(base64.b64decode(str(data), validate=True), wanted + 1)
    except (ValueError, zlib.error) as error:
        raise ValueError(f"{name}: got a packed array that cannot be read ({error})") from None
    if len(found) != wanted or not stream.eof:
        raise ValueError(f"{name}: got a packed array that is not of shape {tuple(shape)}")
    return np.frombuffer(found, dtype=_KINDS[kind]).reshape(shape).astype(kind)
