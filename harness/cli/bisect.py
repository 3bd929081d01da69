"""`lossgate bisect`: since which release, or commit, is a cell as it is?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from harness.cli import completing
from harness.cli.options import Memory, Offline, Python, TextFormat, Timeout

if TYPE_CHECKING:
    from harness.bisection.finding import Finding
    from harness.bisection.rows import Row

EXAMPLE: Final = "Example: lossgate bisect trl 0.22.0..1.16.0 --cell dapo,token,0"


def bisect(
    name: Annotated[
        str,
        typer.Argument(
            autocompletion=completing.library, help="A library; with --git, a target that lies in the checkout."
        ),
    ],
    between: Annotated[
        str, typer.Argument(metavar="A..B", help="Releases, or with --git commits, both in it; A.. to the newest.")
    ],
    cell: Annotated[
        str,
        typer.Option(
            metavar="LOSS_TYPE[,LEVEL[,BETA[,DTYPE]]]",
            help="The cell (left out: token, 0, float32).",
            show_default=False,
        ),
    ],
    git: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH", help="Bisect the commits of this checkout; imports start at PATH, or its src."
        ),
    ] = None,
    examples: Annotated[int, typer.Option(help="Drawn cases, on top of the boundary cases.")] = 16,
    seed: Annotated[int, typer.Option(help="Same seed, same cases.")] = 0,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder for the runs (default: lossgate-runs/<time>).")
    ] = None,
    output: Annotated[TextFormat, typer.Option("--format", help="What to print.")] = TextFormat.TABLE,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
    strict: Annotated[
        bool,
        typer.Option("--strict", help="Judge by the bare formula: no declared conventions, all padding lines."),
    ] = False,
    python: Python = None,
    timeout: Timeout = 60.0,
    memory: Memory = 16.0,
    offline: Offline = False,
) -> None:
    """Find where a cell changed, with as few releases or commits judged as possible.

    Both ends are judged first, then the middle of what is left; what cannot be loaded is skipped. With --git every
    commit is laid out in a temporary folder: the checkout is only read.

    Exit code: 0 found, 2 wrong usage or no such release or commit, 4 no answer: nothing changed, an end cannot be
    judged, or the cell is nondeterministic.
    """
    from harness.bisection.bisection import bisected
    from harness.bisection.cell import CellWords
    from harness.bisection.report import as_json, lines
    from harness.bisection.search import at_most
    from harness.cli.width import width
    from harness.config import Config
    from harness.errors import UsageError
    from harness.preparation import RUNS
    from harness.progress import shown
    from harness.recording import fresh_folder
    from reports.wrapping import wrapped

    words = CellWords.of(cell)
    folder = (out if out is not None else fresh_folder(RUNS)).absolute()
    if folder.exists() and any(folder.iterdir()):
        raise UsageError(f"{folder} is not empty", "give a folder that is new or empty")
    options: dict[str, Any] = {
        "loss_types": words.loss_type,
        "levels": words.level,
        "betas": words.beta,
        "dtypes": words.dtype,
        "examples": examples,
        "seed": seed,
        "settings": Config.load(None).settings,
        "strict": strict,
        "python": python.absolute() if python is not None and len(python.parts) > 1 else python,
        "timeout": timeout,
        "memory": memory,
        "offline": offline,
    }
    row = (
        _releases(name, between, folder, options) if git is None else _commits(name, between, git, folder, options)
    )

    with shown(quiet, f"{row.kind}s", "starting") as gauge:
        gauge.expect(at_most(len(row.names)))

        def judged(number: int) -> Finding:
            gauge.doing(f"judging {row.names[number]}")
            finding = row.judged(number)
            gauge.advance(int(finding.fails))
            gauge.reached(f"{finding.name} {finding.word if finding.result else 'skipped'}")
            return finding

        answer = bisected(len(row.names), judged, row.kind)
    if output is TextFormat.JSON:
        print(json.dumps(as_json(answer, name, between, words, row.kind, len(row.names)), indent=2))
    else:
        for line in lines(answer, f"{name} {between}  {words}", row.kind, len(row.names)):
            # A command is copied whole.
            is_command = "lossgate " in line
            indent = " " * (len(line) - len(line.lstrip()) + 4)
            for part in [line] if is_command else wrapped(line, width(), indent=indent):
                typer.echo(part)
    raise typer.Exit(int(answer.exit_code))


def _releases(name: str, between: str, folder: Path, options: dict[str, Any]) -> Row:
    from harness.bisection.rows import Releases
    from harness.plan import Plan
    from harness.releases.span import Span

    span = Span.of(name, between)
    plan = Plan.of([name], **options)
    return Releases(plan, span.releases(plan.python, plan.offline), folder)


def _commits(name: str, between: str, git: Path, folder: Path, options: dict[str, Any]) -> Row:
    from harness.bisection.checkout import Checkout
    from harness.bisection.rows import Commits, imported_by
    from harness.plan import Plan

    plan = Plan.of([name], **options)
    imported_by(plan.settings_of(name).name)
    checkout = Checkout.of(git)
    return Commits(plan, checkout, checkout.commits(between), folder)
