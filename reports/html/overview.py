"""The table that a report begins with: loss_type and level by beta and dtype, one a target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from reports.html.cells import CellView


@dataclass(frozen=True, eq=False)
class Grid:
    """The cells of one target, surface and device. `cells` are by loss_type, level, beta and dtype."""

    target: str
    place: str
    rows: tuple[tuple[str, str], ...]
    betas: tuple[float, ...]
    dtypes: tuple[str, ...]
    cells: Mapping[tuple[str, str, float, str], CellView]


def grids(views: Sequence[CellView]) -> list[Grid]:
    """One grid a target, surface and device, in the order of the cells."""
    groups: dict[tuple[str, str, str], list[CellView]] = {}
    for view in views:
        cell = view.entry.cell
        groups.setdefault((cell.target, cell.surface, cell.device), []).append(view)
    return [_grid(surface, device, alike) for (_, surface, device), alike in groups.items()]


def _grid(surface: str, device: str, views: Sequence[CellView]) -> Grid:
    cells = [view.entry.cell for view in views]
    return Grid(
        target=str(views[0].entry.subject),
        place=f"{surface}, {device}",
        rows=tuple(dict.fromkeys((cell.loss_type, cell.level) for cell in cells)),
        betas=tuple(sorted({cell.beta for cell in cells})),
        dtypes=tuple(dict.fromkeys(cell.dtype for cell in cells)),
        cells={
            (cell.loss_type, cell.level, cell.beta, cell.dtype): view
            for cell, view in zip(cells, views, strict=True)
        },
    )
