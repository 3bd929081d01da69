"""Reproducers: numbers to the bit, formulas in plain text, and scripts of real libraries that run alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cases.batch import Batch
from cases.case import Case
from cases.conventions import Conventions
from cases.dtypes import DTYPES, FLOAT32, DType
from cases.spec import Level, LossSpec, LossType
from harness.asking import Contestant
from harness.judge import judge
from harness.releases.overlay import overlay_of
from harness.reproducer.finding import Finding, NoScript
from harness.reproducer.formula import formula
from harness.reproducer.numbers import WIDTH, array, expected, interval, literal, tensor
from harness.reproducer.script import script
from oracles.expectation import expect
from reports.records import Verdict
from tests.worker.fetched import boundary_cases, opened

RUFF = Path(sys.executable).with_name("ruff")

# Runs scripts one after the other, so that a library is imported once; each sees only what it imports itself.
RUN_ALONE = """
import contextlib, io, json, runpy, sys
ended = {}
for path in sys.argv[1:]:
    for name in [name for name in sys.modules if name.partition(".")[0] == "unsloth_zoo"]:
        del sys.modules[name]
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            runpy.run_path(path, run_name="__main__")
    except SystemExit as end:
        ended[path] = end.code
ours = {"cases", "harness", "oracles", "reports"} & set(sys.modules)
print("\\n" + json.dumps([ended, sorted(ours)]))
"""


@given(
    value=st.floats(width=32, allow_nan=False, allow_infinity=False), dtype=st.sampled_from(list(DTYPES.values()))
)
def test_torch_reads_the_very_same_number(value: float, dtype: DType) -> None:
    """An input survives to the bit in every dtype, half types and -0 among them."""
    held = float(dtype.round(value))
    if not np.isfinite(held):
        return
    read = torch.tensor([float(literal(held, dtype))], dtype=getattr(torch, dtype.name)).double()
    assert read.numpy().tobytes() == np.array([held]).tobytes()


@pytest.mark.parametrize(
    ("value", "dtype", "text"),
    [
        (float(np.float32(0.2)), "float32", "0.2"),
        (0.2, "float64", "0.2"),
        (-2.703125, "bfloat16", "-2.7"),
        (-2.0, "float32", "-2.0"),
        (float("nan"), "float32", "torch.nan"),
        (float("-inf"), "float32", "-torch.inf"),
    ],
)
def test_inputs_are_short(value: float, dtype: str, text: str) -> None:
    """The shortest decimal is taken: readers are not shown what a dtype makes of 0.2."""
    assert literal(value, DTYPES[dtype]) == text


finite = st.floats(min_value=-1e30, max_value=1e30)


@given(high=finite, share=st.floats(-0.5, 0.5), bound=st.floats(min_value=0, max_value=1e3))
def test_an_expected_number_is_never_stricter_than_its_bound(high: float, share: float, bound: float) -> None:
    """What lies within the bound of the exact number is let pass, and little more than that."""
    low = share * float(np.spacing(high))
    value, allowed = map(float, expected(high, low, bound))
    exact = Fraction(high) + Fraction(low)
    ends = exact - Fraction(bound), exact + Fraction(bound)
    reach = Fraction(allowed) * (1 + Fraction(1, 2**50))
    assert Fraction(value) - reach <= ends[0]
    assert Fraction(value) + reach >= ends[1]
    assert allowed <= (bound + abs(low)) * 1.003 + 1e-300


@given(middle=finite, bound=st.floats(min_value=0, max_value=1e3))
def test_an_interval_is_rounded_outwards(middle: float, bound: float) -> None:
    """Its ends hold the number and its bound; a number without a bound stays itself."""
    low, high = map(float, interval(Decimal(middle), Decimal(middle), bound))
    slack = abs(middle) * 2.0**-52
    assert low - slack <= middle - bound
    assert high + slack >= middle + bound
    if bound == 0:
        assert low == high == middle


def test_long_tensors_are_written_a_row_a_line() -> None:
    """No line is longer than a script may be, and Python reads the same numbers."""
    nested = [[f"{row}.{column:06d}" for column in range(40)] for row in range(3)]
    text = tensor(nested, len("logps = "), "dtype=torch.float64")
    assert max(map(len, text.splitlines())) <= WIDTH
    assert eval(text, {"torch": torch}).tolist() == [[float(number) for number in row] for row in nested]
    assert array([["1.0"], ["2.0"]], 0) == "[[1.0], [2.0]]"


def small_case(spec: LossSpec) -> Case:
    """Two completions of two tokens, off-policy."""
    zeros = np.zeros((2, 2))
    return Case(Batch(FLOAT32, zeros - 1, zeros - 1, zeros - 2, np.ones(2), zeros == 0), spec)


def test_the_formula_of_a_convention_is_told() -> None:
    """Whoever reads a script of verl sees its dual clip and its bounds in the formula."""
    conventions = Conventions(dual_clip=3.0, log_ratio_bounds=(-20.0, 20.0), kl_bound=10.0)
    spec = LossSpec(LossType.DAPO, beta=0.5, conventions=conventions)
    assert list(formula(small_case(spec))) == [
        "L = 1/N sum_i sum_t (P_it + beta KL_it)",
        "P_it = -min(r_it A_it, clip(r_it, 1 - epsilon_low, 1 + epsilon_high) A_it)",
        "P_it is at most -3 A_it where A_it < 0 (dual clip)",
        "r_it = exp(clip(logps_it - old_logps_it, -20, 20))",
        "KL_it = clip(exp(x_it) - x_it - 1, -10, 10)",
        "x_it = ref_logps_it - logps_it",
    ]


@pytest.mark.parametrize("level", Level)
@pytest.mark.parametrize("loss_type", LossType)
def test_every_loss_has_a_formula(loss_type: LossType, level: Level) -> None:
    """Each begins with the loss, says what its policy term is, and fits in a script."""
    lines = list(formula(small_case(LossSpec(loss_type, level, beta=0.5))))
    assert lines[0].startswith("L = ")
    assert any(line.startswith("P_it = ") for line in lines)
    assert max(map(len, lines)) <= WIDTH - 4


def finding_of(one: Contestant, release: str, case: Case) -> Finding:
    """A case put to a target, whatever came of it."""
    judged = judge(case, expect(case), one.client.ask(case))
    return Finding(
        case=case,
        name=release,
        python=sys.executable,
        facts=one.facts,
        device="cpu",
        verdict=judged.verdict,
        message=judged.message,
        reason="",
    )


def run_alone(release: str, scripts: list[Path]) -> dict[str, int]:
    """The exit code of each script, where torch and the library are found and nothing of ours is loaded."""
    folders = overlay_of(release, sys.executable, offline=True).folders
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, folders)), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        [sys.executable, "-P", "-c", RUN_ALONE, *map(str, scripts)],
        cwd=scripts[0].parent,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    ended, ours = json.loads(done.stdout.splitlines()[-1])
    assert ours == []
    return {Path(path).stem: code for path, code in ended.items()}


ENDS = {Verdict.CONFORMS: 0, Verdict.OVERFLOW: 0, Verdict.DIVERGES: 1}

# A cell whose cases have splits, deltas, importance ratios and advantages per token, where a library takes them;
# and one that is known to diverge, where one is.
CELLS = {
    "trl==1.9.0": (("float32", "luspo", "token", 0.04), ("float64", "dapo", "sequence", 0.0)),
    "trl==0.18.2": (("float32", "bnpo", "token", 0.04),),
    "trl==0.16.1": (("float32", "bnpo", "token", 0.0),),
    "liger==0.8.5": (("float32", "luspo", "token", 0.04), ("bfloat16", "vespo", "token", 0.0)),
    "unsloth==2026.10.9": (("float32", "dapo", "token", 0.04),),
    "verl==0.9.1": (("float32", "grpo", "sequence", 0.04), ("bfloat16", "cispo", "token", 0.0)),
    "verl==0.6.0": (("float32", "bnpo", "token", 0.04),),
    "openrlhf==0.11.2": (("float32", "dapo", "token", 0.04),),
    "openrlhf==0.10.2": (("float32", "grpo", "token", 0.04),),
}


@pytest.mark.parametrize("release", CELLS)
def test_a_script_ends_as_its_case_was_judged(release: str, tmp_path: Path) -> None:
    """Without lossgate, the library is called in the same way, and the same is said of its answer."""
    judged: dict[str, Verdict] = {}
    with opened(release) as one:
        for cell in CELLS[release]:
            for case in list(boundary_cases(*cell))[::4]:
                found = finding_of(one, release, one.under_conventions(case))
                if found.verdict in ENDS:
                    judged[found.case.id] = found.verdict
                    (tmp_path / f"{found.case.id}.py").write_text(script(found))
    assert len(judged) >= 6
    ended = run_alone(release, sorted(tmp_path.glob("*.py")))
    assert ended == {case: ENDS[verdict] for case, verdict in judged.items()}
    texts = [path.read_text() for path in tmp_path.glob("*.py")]
    assert max(len(line) for text in texts for line in text.splitlines()) <= WIDTH
    linted = subprocess.run([RUFF, "check", "--isolated", tmp_path], capture_output=True, text=True, check=False)
    assert linted.returncode == 0, linted.stdout


def test_the_release_with_the_fix_passes_the_same_script(tmp_path: Path) -> None:
    """What TRL 1.9.0 fails, luspo's masked positions, the TRL of this environment does not."""
    with opened("trl==1.9.0") as one:
        found = (
            finding_of(one, "trl==1.9.0", one.under_conventions(case))
            for case in boundary_cases("float32", "luspo", "token", 0.04)
        )
        failing = next(one for one in found if one.verdict is Verdict.DIVERGES)
    path = tmp_path / "luspo.py"
    path.write_text(script(failing))
    assert run_alone("trl==1.9.0", [path]) == {"luspo": 1}
    assert run_alone("trl", [path]) == {"luspo": 0}
    docstring = path.read_text().partition("import sys")[0]
    assert docstring.startswith('"""trl 1.9.0, loss_type="luspo": ')
    for words in ("Source: LUSPO, arXiv 2602.05261", "pip install trl==1.9.0", "Exit code: 1", failing.case.id):
        assert words in docstring


def test_a_large_case_says_so(tmp_path: Path) -> None:
    """Its numbers are all there, and a sentence says that no smaller one was found."""
    with opened("liger==0.8.5") as one:
        rng = np.random.default_rng(5)
        numbers = FLOAT32.round(-rng.random((3, 80)) - 0.5)
        mask = np.ones((3, 80), dtype=bool)
        case = Case(Batch(FLOAT32, numbers, None, None, np.ones(3), mask), LossSpec(LossType.GRPO))
        text = script(replace(finding_of(one, "liger==0.8.5", case), verdict=Verdict.DIVERGES))
    assert "The case has 240 positions: no smaller one was found" in " ".join(text.split())
    path = tmp_path / "large.py"
    path.write_text(text)
    assert run_alone("liger==0.8.5", [path]) == {"large": 0}


def test_a_loss_that_is_no_method_has_no_script() -> None:
    """TRL 0.14 samples, rewards and takes the loss in one: that is said in a sentence."""
    with opened("trl==0.14.0") as one:
        case = next(boundary_cases("float32", "grpo", "token", 0.04))
        found = finding_of(one, "trl==0.14.0", one.under_conventions(case))
    with pytest.raises(NoScript, match="samples, rewards and takes the loss in one method"):
        script(found)
