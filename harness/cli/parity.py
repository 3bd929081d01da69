"""`lossgate parity`: one target executed in several ways, on the same cases, with the oracle as third voice."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from harness.cli.options import Memory, Offline, ParityFormat, Python

if TYPE_CHECKING:
    from harness.parity.parity import Checked
    from reports.parity import Parity

EXAMPLE: Final = (
    "Example: lossgate parity trl --devices cpu,cuda --dtypes float32,bfloat16 --compile eager,inductor"
)


def parity(
    target: Annotated[str, typer.Argument(help="A target, such as trl or my_pkg.losses:grpo_loss.")],
    devices: Annotated[
        str, typer.Option(help="Torch devices, comma-separated; the first is the reference.")
    ] = "cpu",
    dtypes: Annotated[
        str | None,
        typer.Option("--dtypes", "--dtype", help="Comma-separated (default: float64,float32,bfloat16)."),
    ] = None,
    compilers: Annotated[str, typer.Option("--compile", help="eager, inductor; comma-separated.")] = "eager",
    threads: Annotated[str, typer.Option(help="Numbers of threads, or all; comma-separated.")] = "1",
    against: Annotated[
        str | None, typer.Option(metavar="TARGET", help="The reference: another target, in the first way listed.")
    ] = None,
    loss_type: Annotated[str | None, typer.Option(help="Comma-separated (default: all).")] = None,
    level: Annotated[str | None, typer.Option(help="token, sequence (default: both).")] = None,
    beta: Annotated[str | None, typer.Option(help="Comma-separated (default: 0,0.04).")] = None,
    examples: Annotated[
        int | None, typer.Option(help="Descriptions per cell, 4 cases each (default: 4; 1 where one is compiled).")
    ] = None,
    every_cell: Annotated[
        bool,
        typer.Option("--every-cell", help="Compile in every cell, not only so that losses meet levels and betas."),
    ] = False,
    seed: Annotated[int | None, typer.Option(help="Same seed, same cases (default: 0).")] = None,
    contract: Annotated[
        str, typer.Option(help="What the executions may round: ordinary, or fast_exp.")
    ] = "ordinary",
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Also write parity.json, parity.md, and the cases that show a failure."),
    ] = None,
    output: Annotated[ParityFormat, typer.Option("--format", help="What to print.")] = ParityFormat.TABLE,
    every_row: Annotated[bool, typer.Option("--all", help="Print every cell.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
    config: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Configuration (default: lossgate.toml or pyproject.toml, if here)."),
    ] = None,
    python: Python = None,
    timeout: Annotated[float, typer.Option(help="Seconds that one case may take, compilation included.")] = 180.0,
    memory: Memory = 16.0,
    offline: Offline = False,
) -> None:
    """Execute a target on several devices, compiled or not, and say what the oracle thinks of each.

    Exit code: 0 every execution is within rounding or as expected, 1 one is not, 2 wrong usage, 3 a target did not
    start, 4 there was nothing to compare.
    """
    from harness.parity.parity import check
    from harness.parity.plan import ParityPlan
    from harness.parity.progress import on_stderr

    plan = ParityPlan.of(
        target,
        against=against,
        devices=devices,
        compilers=compilers,
        threads=threads,
        contract=contract,
        examples=examples,
        every_cell=every_cell,
        config=config,
        loss_types=loss_type,
        levels=level,
        betas=beta,
        dtypes=dtypes,
        seed=seed,
        python=python,
        timeout=timeout,
        memory=memory,
        offline=offline,
    )
    with on_stderr(quiet) as tick:
        checked = check(plan, tick)
    _print(checked.parity, output, every_row)
    if out is not None:
        _write(checked, out)
    raise typer.Exit(checked.parity.exit_code)


def _print(found: Parity, output: ParityFormat, every_row: bool) -> None:
    from rich.console import Console

    from reports import parity_json, parity_markdown, parity_terminal
    from reports.formats import LOG_WIDTH

    if output is ParityFormat.JSON:
        print(parity_json.render(found), end="")
    elif output is ParityFormat.MARKDOWN:
        print(parity_markdown.render(found), end="")
    else:
        console = Console() if sys.stdout.isatty() else Console(width=LOG_WIDTH)
        parity_terminal.render(found, console, every_row)


def _write(checked: Checked, folder: Path) -> None:
    from harness.errors import UsageError
    from reports import parity_json, parity_markdown

    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "parity.json").write_text(parity_json.render(checked.parity), encoding="utf-8")
        (folder / "parity.md").write_text(parity_markdown.render(checked.parity), encoding="utf-8")
        if checked.witnesses:
            (folder / "cases").mkdir(exist_ok=True)
        for name, case in checked.witnesses.items():
            (folder / "cases" / f"{name}.json").write_text(case.to_json(), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--out: cannot write to {folder}: {error}") from error
    print(f"written: {folder}", file=sys.stderr)
