"""`matrix.json`: what a matrix was asked for, and what has become of each release so far."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Final

from reports.columns import Column
from reports.matrix import Matrix
from reports.store import RunStoreError, why

FORMAT: Final = "lossgate-matrix/1"
FILE: Final = "matrix.json"


def as_json(matrix: Matrix) -> str:
    """The matrix as JSON text, which is the content of the file."""
    columns = [column.as_facts() for column in matrix.columns]
    content = {"format": FORMAT, "complete": matrix.complete, **matrix.facts, "releases": columns}
    return json.dumps(content, indent=2, allow_nan=False) + "\n"


def save(matrix: Matrix, folder: Path) -> None:
    """Write the file; it appears whole or not at all. Raises `RunStoreError` when it cannot be written."""
    waiting = folder / f".{FILE}.tmp"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        waiting.write_text(as_json(matrix), encoding="utf-8")
        os.replace(waiting, folder / FILE)
    except OSError as error:
        raise RunStoreError(
            f"cannot write {folder / FILE}: {why(error)}; make room or make the folder writable"
        ) from error


def load(folder: Path) -> Matrix:
    """Read the file. Raises `RunStoreError` when there is none, or it is damaged or of another version."""
    path = folder / FILE
    try:
        content = json.loads(path.read_bytes())
        form = content.pop("format")
        if form != FORMAT:
            raise RunStoreError(f"{path} is of format {form!r}, this lossgate reads {FORMAT!r}")
        return _matrix(content)
    except (FileNotFoundError, NotADirectoryError):
        raise RunStoreError(
            f"{folder} is no matrix: there is no {FILE} in it; give a folder that lossgate matrix wrote"
        ) from None
    except RunStoreError:
        raise
    except OSError as error:
        raise RunStoreError(f"cannot read {path}: {why(error)}; make it readable") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise RunStoreError(f"{path} is damaged ({error!r}); restore it or start a new matrix") from error


def _matrix(content: dict[str, Any]) -> Matrix:
    columns = tuple(map(Column.from_facts, content.pop("releases")))
    complete = content.pop("complete") is True
    matrix = Matrix(content, columns, complete)
    # What reports read of it must be there.
    assert matrix.rows is not None
    _ = matrix.about, matrix.title
    return matrix
