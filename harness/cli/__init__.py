"""The command line, one file a verb. Nothing heavy is imported before a verb runs."""

from __future__ import annotations

import signal
import sys
from typing import Annotated, NoReturn

import typer

from harness.cli import (
    bisect,
    compare,
    completion,
    explain,
    faults,
    fetch,
    identify,
    matrix,
    parity,
    replay,
    report,
    reproduce,
    run,
    smoke,
    targets,
)
from harness.errors import UsageError
from harness.exit_codes import ExitCode

app = typer.Typer(
    name="lossgate",
    help="Does this implementation compute the loss, and the gradient, that the paper's formula says?",
    epilog="Example: lossgate run trl --loss-type grpo,dapo --beta 0,0.04",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command("run", epilog=run.EXAMPLE)(run.run)
app.command("targets", epilog=targets.EXAMPLE)(targets.targets)
app.command("smoke", epilog=smoke.EXAMPLE)(smoke.smoke)
app.command("replay", epilog=replay.EXAMPLE)(replay.replay)
app.command("explain", epilog=explain.EXAMPLE)(explain.explain)
app.command("report", epilog=report.EXAMPLE)(report.report)
app.command("reproduce", epilog=reproduce.EXAMPLE)(reproduce.reproduce)
app.command("identify", epilog=identify.EXAMPLE)(identify.identify)
app.command("faults", epilog=faults.EXAMPLE)(faults.faults)
app.command("fetch", epilog=fetch.EXAMPLE)(fetch.fetch)
app.command("compare", epilog=compare.EXAMPLE)(compare.compare)
app.command("matrix", epilog=matrix.EXAMPLE)(matrix.matrix)
app.command("bisect", epilog=bisect.EXAMPLE)(bisect.bisect)
app.command("completion", epilog=completion.EXAMPLE)(completion.completion)
app.command("parity", epilog=parity.EXAMPLE)(parity.parity)


def _version(wanted: bool) -> None:
    if wanted:
        from harness.provenance import version_of_lossgate

        typer.echo(f"lossgate {version_of_lossgate()}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[  # typer calls _version with it
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    pass


def main() -> NoReturn:
    """The `lossgate` command: every expected failure is one message and a distinct exit code."""
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        app()
    except UsageError as error:
        _fail(error.message, error.hint, ExitCode.USAGE)
    except KeyboardInterrupt:
        _fail("interrupted", "", ExitCode.INTERRUPTED)
    except (RuntimeError, OSError) as error:
        _fail_as_known(error)
    except Exception as error:
        _fail_of_our_own(error)
    raise SystemExit(0)


def _interrupt(_signal: int, _frame: object) -> NoReturn:
    """What CI sends to end a job ends a run as Ctrl-C does."""
    raise KeyboardInterrupt


def _fail_as_known(error: RuntimeError | OSError) -> NoReturn:
    from harness.outcome import TargetUnavailable
    from reports.store import RunStoreError

    if isinstance(error, TargetUnavailable):
        code = ExitCode.USAGE if error.kind == "unknown" else ExitCode.UNAVAILABLE
        details = f"\n{error.details}" if error.details else ""
        _fail(f"{error.message}{details}", error.hint, code)
    if isinstance(error, RunStoreError):
        _fail(str(error), "", ExitCode.USAGE)
    _fail_of_our_own(error)


def _fail_of_our_own(error: Exception) -> NoReturn:
    """Nothing that a gate may take for a finding about its target."""
    import traceback

    traceback.print_exception(error)
    what = f"{type(error).__name__}: {error}".splitlines()[0]
    hint = "the run is not complete, and nothing is said of the target; please report it, with the lines above"
    _fail(f"a fault of lossgate itself: {what}", hint, ExitCode.BROKEN)


def _fail(message: str, hint: str, code: ExitCode) -> NoReturn:
    print(f"lossgate: {message}", file=sys.stderr)
    if hint:
        print(f"  {hint}", file=sys.stderr)
    raise SystemExit(int(code))
