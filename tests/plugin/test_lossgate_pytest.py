"""The pytest plugin, in sessions of pytest of their own."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from harness.plan import PROFILES
from lossgate_pytest.question import AXES, Question

pytest_plugins = ["pytester"]

EXAMPLE = Path(__file__).parents[2] / "examples" / "pytest"
RIGHT = (EXAMPLE / "src" / "my_losses.py").read_text()
FAULTY = RIGHT.replace(
    "((losses * mask).sum(1) / lengths).mean()", "(losses * mask).sum() / mask.sum().clamp(min=1)"
)
FEW = 'loss_type="grpo", level="token", dtype="float32", examples=1'
WITHOUT_KL = RIGHT.replace("ref_logps, ", "").replace("mask, beta,", "mask,").replace("if beta:", "if False:")


def session(pytester: pytest.Pytester, *arguments: str | Path) -> pytest.RunResult:
    """A session in its folder, with the plugin whether or not it is installed as one."""
    options = ("-p", "lossgate_pytest", "-p", "no:cacheprovider", "--strict-markers", "-rA")
    return pytester.runpytest_subprocess(*options, *arguments)


def test_each_cell_is_a_test(pytester: pytest.Pytester) -> None:
    """Named after it, beside other parameters; the body runs where it passes; what is unsupported is skipped."""
    pytester.makepyfile(
        losses=WITHOUT_KL,
        test_it=f"""
        import pytest

        @pytest.mark.lossgate("losses:grpo_loss", beta=[0, 0.04], {FEW})
        class TestLoss:
            @pytest.mark.parametrize("number", [7])
            def test_it(self, number, lossgate_cell):
                print("body", number, lossgate_cell.cell, lossgate_cell.gradient["ratio"] <= 1)
                assert lossgate_cell.verdict == "conforms"  # it is not

            def test_empty(self):
                pass
        """,
    )
    result = session(pytester)
    result.assert_outcomes(passed=1, failed=1, skipped=2)
    result.stdout.fnmatch_lines(
        [
            "body 7 grpo token beta 0 float32 True",
            "losses:grpo_loss overflow: gradient NaN or infinite where the formula is finite",
            "PASSED test_it.py::TestLoss::test_empty[[]grpo-token-beta0-float32]",
            "SKIPPED * losses:grpo_loss unsupported: losses:grpo_loss has no parameter beta, which *",
            "FAILED test_it.py::TestLoss::test_it[[]grpo-token-beta0-float32-7]*",
        ]
    )


def test_a_fault_fails_in_its_cell_with_words(pytester: pytest.Pytester) -> None:
    """What is wrong, the smallest case token by token, and a command that can be pasted."""
    pytester.mkpydir("src")
    pytester.makeini("[pytest]\npythonpath = src")
    (pytester.path / "src" / "losses.py").write_text(FAULTY)
    pytester.makepyfile(
        f"""
        import losses, pytest

        @pytest.mark.lossgate("losses:grpo_loss", beta=[0, 0.04], {FEW})
        def test_mark():
            print("never reached")

        def test_check(lossgate):
            lossgate.check(losses.grpo_loss, beta=[0, 0.04], {FEW})
        """
    )
    result = session(pytester)
    result.assert_outcomes(failed=3)
    result.stdout.no_fnmatch_line("never reached")
    result.stdout.no_fnmatch_line("*Traceback*")
    what = [
        "losses:grpo_loss diverges: computes bnpo",
        "grpo token beta {beta} float32: * cases fail; largest error*",
    ]
    table = ["  row  token  logp * expected * got * bound", "replay, in *:"]
    result.stdout.fnmatch_lines(
        [
            "*_ test_mark[[]grpo-token-beta0-float32] _*",
            *(line.format(beta=0) for line in (*what, *table)),
            "*_ test_mark[[]grpo-token-beta0.04-float32] _*",
            *(line.format(beta=0.04) for line in what),
            "token by token: the test of grpo token beta 0 float32 shows such a case",
            "*_ test_check _*",
            *(line.format(beta=0) for line in (*what, *table)),
            "also grpo token beta 0.04 float32: losses:grpo_loss diverges: computes bnpo",
        ]
    )
    replay = next(line for line in result.outlines if " lossgate replay " in line)
    assert "PYTHONPATH=src " in replay
    command = replay.replace(" lossgate ", f" {Path(sys.executable).with_name('lossgate')} ")
    again = subprocess.run(command, shell=True, cwd=pytester.path, capture_output=True, text=True, check=False)
    assert again.returncode == 1, again.stderr
    assert "diverges" in again.stdout


def test_what_is_known_is_expected_to_fail(pytester: pytest.Pytester) -> None:
    """A divergence that lossgate.toml has, with its reason."""
    (pytester.path / "lossgate.toml").write_text(
        '[[expect]]\ntarget = "losses:grpo_loss"\nbeta = 0.0\nreason = "we average over the batch"\n'
    )
    pytester.makepyfile(
        losses=FAULTY,
        test_it=f"""
        import pytest

        @pytest.mark.lossgate("losses:grpo_loss", beta=[0, 0.04], {FEW})
        def test_it(): pass
        """,
    )
    result = session(pytester)
    result.assert_outcomes(xfailed=1, failed=1)
    result.stdout.fnmatch_lines(
        [
            "XFAIL *grpo-token-beta0-float32* losses:grpo_loss known: we average over the batch",
            "FAILED *grpo-token-beta0.04-float32*",
        ]
    )


def test_a_project_may_have_packages_of_our_names(pytester: pytest.Pytester) -> None:
    """The loss finds the project's, on a path that only its conftest knows; lossgate finds none of them."""
    own = pytester.mkdir("vendored")
    for place in (pytester.path, own):
        for name in ("cases", "harness", "oracles", "reports", "typer"):
            (place / name).mkdir()
            (place / name / "__init__.py").write_text(f"raise RuntimeError('{name} of the project')\n")
    (pytester.path / "cases" / "__init__.py").write_text("OWNER = 'the project'\n")
    (own / "my_vendored_losses.py").write_text("import cases\nassert cases.OWNER == 'the project'\n" + RIGHT)
    pytester.makeconftest(
        "import os, sys; sys.path.insert(0, os.path.join(os.path.dirname(__file__), 'vendored'))"
    )
    pytester.makepyfile(
        f"""
        import cases, pytest
        assert cases.OWNER == "the project"

        @pytest.mark.lossgate("my_vendored_losses:grpo_loss", beta=0, {FEW})
        def test_it(): pass
        """
    )
    session(pytester, "-o", "lossgate_options=--jobs 2").assert_outcomes(passed=1)


@pytest.mark.parametrize("name", ["losses", "constants"])
def test_never_is_another_module_judged_than_the_tests_import(pytester: pytest.Pytester, name: str) -> None:
    """Such as an old copy in the root folder, where lossgate looks first and the tests do not."""
    for folder in ("src", "tests"):
        pytester.mkdir(folder)
    pytester.makeini("[pytest]\npythonpath = src")
    (pytester.path / f"{name}.py").write_text(RIGHT)
    (pytester.path / "src" / "constants.py").write_text("")
    (pytester.path / "src" / "losses.py").write_text("import constants\n" + FAULTY)
    (pytester.path / "tests" / "test_it.py").write_text(
        f"import constants\ndef test_it(lossgate): lossgate.check('losses:grpo_loss', beta=0, {FEW})\n"
    )
    result = session(pytester)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([f"*/{name}.py would be imported instead of */src/{name}.py: *"])


def test_processes_of_xdist_share_runs(pytester: pytest.Pytester) -> None:
    """What one has judged, no other judges again; deselected cells are not judged; and another interpreter's
    lossgate can be named.
    """
    python = pytester.path / "python"
    python.write_text(f'#!/bin/sh\necho "$@" >> {pytester.path / "calls"}\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    pytester.makepyfile(
        losses=RIGHT,
        test_it=f"""
        import pytest

        @pytest.mark.parametrize("number", range(3))
        @pytest.mark.lossgate("losses:grpo_loss", beta=[0, 0.04, 1], {FEW})
        def test_it(number): pass

        def test_check(lossgate):
            lossgate.check("losses:grpo_loss", beta=1, {FEW})
        """,
    )
    session(pytester, "-n", "2", "-k", "not beta1", "--lossgate-python", "./python").assert_outcomes(passed=7)
    calls = re.findall(r"run losses:grpo_loss .*--beta (\S+)", (pytester.path / "calls").read_text())
    assert sorted(calls) == ["0.0,0.04", "1.0"]


@pytest.mark.parametrize(
    ("target", "what"),
    [
        ("lambda logps: logps.sum()", r"test_it.<locals>.<lambda>"),
        ("local", r"test_it.<locals>.local"),
        ("Losses().bound", "Losses.bound"),
        ("functools.partial(local, 1)", r"functools.partial\(.*\)"),
    ],
)
def test_what_has_no_name_elsewhere_is_a_sentence(pytester: pytest.Pytester, target: str, what: str) -> None:
    """Such as a lambda."""
    pytester.makepyfile(
        f"""
        import functools

        class Losses:
            def bound(self, logps): ...

        def test_it(lossgate):
            def local(logps): ...
            lossgate.check({target}, {FEW})
        """
    )
    result = session(pytester)
    result.assert_outcomes(failed=1)
    result.stdout.re_match_lines(
        [rf"lossgate.check: {what} cannot be imported by name in another process: give it a name at the top.*"]
    )
    result.stdout.no_re_match_line(r"(?i).*pickle|Traceback")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ('"a:b", loss_typ="grpo"', "no argument 'loss_typ', takes *; did you mean 'loss_type'[?]"),
        ('"a:b"', "which loss is it[?] say loss_type='grpo', or a list of them"),
        ('loss_type="grpo"', "got 0 targets, takes one, such as 'my_pkg.losses:grpo_loss'"),
        ('"a:b", loss_type="grpo", beta="0"', "beta: got '0', takes a number or a list of numbers"),
        ('"a:b", loss_type="grpo,bnpo"', "loss_type: got 'grpo,bnpo', takes a name or a list of names"),
        ('"a:b", loss_type="grpo", seed=1.5', "seed: got 1.5, takes an integer"),
        ('"a:b", loss_type="grpo", dtype=[]', "dtype: the list is empty"),
    ],
)
def test_a_wrong_mark_is_said_when_tests_are_collected(
    pytester: pytest.Pytester, arguments: str, sentence: str
) -> None:
    """In one sentence, without a trace."""
    pytester.makepyfile(f"import pytest\n@pytest.mark.lossgate({arguments})\ndef test_it(): pass")
    result = session(pytester, "--collect-only")
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines([f"*::test_it: the lossgate mark: {sentence}"])
    result.stdout.no_fnmatch_line("*Traceback*")


def test_a_mark_that_nothing_heeds_is_no_pass(pytester: pytest.Pytester) -> None:
    """pytest makes no tests of a TestCase's methods, which would pass without being judged."""
    pytester.makepyfile(
        f"""
        import pytest, unittest

        @pytest.mark.lossgate("losses:grpo_loss", {FEW})
        class Test(unittest.TestCase):
            def test_it(self): pass
        """
    )
    result = session(pytester)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: *: a lossgate mark does nothing here; *"])


@pytest.mark.parametrize(
    ("option", "sentence"),
    [
        ("--lossgate-python=./bare", "lossgate does not run in */bare: ModuleNotFoundError: No module named *; *"),
        ("--lossgate-python=./none", "lossgate cannot be started: * No such file or directory: *; *"),
        ("--override-ini=lossgate_options=--job 2", "  lossgate_options are --job 2"),
        ("--override-ini=lossgate_options=--device moon", "lossgate: * moon*"),
    ],
)
def test_a_lossgate_that_does_not_run_is_a_sentence(pytester: pytest.Pytester, option: str, sentence: str) -> None:
    """Missing or broken, or with wrong settings: an error of each test that needs it, not a pass."""
    bare = pytester.path / "bare"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    bare.chmod(0o755)
    pytester.makepyfile(
        losses=RIGHT,
        test_it=f"""
        import pytest

        @pytest.mark.lossgate("losses:grpo_loss", beta=0, {FEW})
        def test_it(): pass
        """,
    )
    result = session(pytester, option)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([sentence])
    result.stdout.no_fnmatch_line("*Traceback*")


def test_it_costs_nothing_where_no_test_uses_it(pytester: pytest.Pytester) -> None:
    """No module but its first is imported, nor any that pytest has not imported itself, and no process starts."""
    pytester.makepyfile(
        """
        import sys

        def test_it():
            ours = {name for name in sys.modules if name.startswith("lossgate")}
            heavy = {"numpy", "torch", "pandas", "cases", "harness", "reports", "oracles"}
            assert ours == {"lossgate_pytest"}
            assert not heavy & set(sys.modules)
        """
    )
    session(pytester, "-p", "no:hypothesispytest", "-p", "no:anyio").assert_outcomes(passed=1)
    new = "import pytest, sys; old = set(sys.modules); import lossgate_pytest; print(set(sys.modules) - old)"
    assert subprocess.run([sys.executable, "-c", new], capture_output=True, text=True, check=True).stdout == (
        "{'lossgate_pytest'}\n"
    )


def test_what_is_left_out_is_as_the_command_has_it() -> None:
    """Levels, betas and dtypes of a mark that names none are those of `lossgate run`."""
    ci = PROFILES["ci"]
    assert (AXES["beta"], AXES["dtype"]) == (ci.betas, ci.dtypes)
    assert len(Question.of("trl", loss_type="grpo").cells) == 2 * len(ci.betas) * len(ci.dtypes)


def test_the_page_shows_what_the_example_prints(pytester: pytest.Pytester) -> None:
    """docs/pytest.md: the example passes, and with the mistake that the page names it fails as shown there."""
    shutil.copytree(EXAMPLE, pytester.path, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    session(pytester, "-o", "lossgate_options=--examples 4").assert_outcomes(passed=3)
    page = (EXAMPLE.parents[1] / "docs" / "pytest.md").read_text()
    right, wrong = re.findall(r"^([-+]) +(return .*)$", page, re.MULTILINE)
    losses = pytester.path / "src" / "my_losses.py"
    assert right[1] in RIGHT
    losses.write_text(RIGHT.replace(right[1], wrong[1]))
    shown = page.split("```text\n")[1].split("```")[0].splitlines()
    result = session(pytester, "-k", "test_grpo")
    result.assert_outcomes(failed=2, deselected=1)
    printed = result.outlines[result.outlines.index(shown[0]) :][: len(shown)]
    assert _without_folders(printed) == _without_folders(shown)


def _without_folders(lines: list[str]) -> list[str]:
    return [re.sub(r"(^replay, in |replay )/\S+", r"\1...", line) for line in lines]
