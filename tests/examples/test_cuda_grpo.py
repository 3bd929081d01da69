"""The CUDA example is what it says: it builds, its operator conforms, and a mistake in it is found."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from reports.run import Run
from tests.cli.conftest import COMMAND
from tests.examples.cuda_grpo_copies import EXAMPLE, build, copy_of, run

COMMANDS = re.findall(r"^    lossgate (run .*)$", (EXAMPLE / "README.md").read_text(), re.MULTILINE)
OPERATOR = "./build/libgrpo.so#lossgate_example::grpo_loss"
ON_HOST = "./build/libgrpo_on_host.so#lossgate_example::grpo_loss"
NVCC = shutil.which("nvcc") or shutil.which("nvcc", path="/usr/local/cuda/bin")
needs_nvcc = pytest.mark.skipif(NVCC is None, reason="no nvcc here: the CUDA sources cannot be compiled")


@pytest.fixture(scope="module")
def built() -> Path:
    """The example as it is, built with all that can be built here."""
    folder = copy_of("as_it_is")
    result = build(folder, "--on-host")
    assert result.returncode == 0, result.stdout + result.stderr
    return folder


def judged(folder: Path, out: Path, *arguments: str) -> tuple[Run, subprocess.CompletedProcess[str]]:
    """What `lossgate run` says of a target in a copy of the example: the boundary cases and a few drawn ones."""
    result = run(folder, COMMAND, *arguments, "--examples", "4", "--quiet", "--out", out)
    return Run.load(out), result


@pytest.mark.parametrize(
    "command",
    [command for command in COMMANDS if "cuda" not in command],
    ids=lambda command: shlex.split(command)[1].split("#")[0],
)
def test_what_the_readme_judges_conforms(command: str, built: Path, tmp_path: Path) -> None:
    """Operator, autograd function and kernels on the host: every loss, beta and dtype that the README names.

    Where something is not finite, it is not in the formula either.
    """
    arguments = shlex.split(command)
    judgement, result = judged(built, tmp_path / "out", *arguments)
    assert result.returncode == 0, result.stdout + result.stderr
    rows = judgement.rows
    compared = rows[rows["verdict"] != "unsupported"]
    assert set(compared["verdict"]) <= {"conforms", "overflow"}
    overflow = compared[compared["verdict"] == "overflow"]
    assert overflow["message"].str.fullmatch("[a-z ]+ not finite, beyond the dtype in the formula too").all()
    for option, column in (("--loss-type", "loss_type"), ("--dtype", "dtype")):
        assert set(compared[column]) == set(arguments[arguments.index(option) + 1].split(","))
    assert set(compared["beta"]) == {0.0, 0.04}


def test_the_readme_judges_the_gpu_as_it_judges_the_cpu() -> None:
    """The command for CUDA differs from one that is tested here by the device alone."""
    on_gpu = [command for command in COMMANDS if "--device cuda" in command]
    assert len(on_gpu) == 1
    assert on_gpu[0].replace("--device cuda", "--device cpu") in COMMANDS
    targets = {shlex.split(command)[1] for command in COMMANDS}
    assert targets == {OPERATOR, ON_HOST, "grpo:grpo_loss"}


@pytest.mark.parametrize(
    ("name", "file", "right", "wrong", "betas"),
    [
        ("clip_on_the_wrong_side", "grpo_token.h", "if (ratio > cap)", "if (ratio < cap)", {0.0, 0.04}),
        ("kl_without_beta", "grpo_token.h", "token.loss += beta * kl.loss", "token.loss += kl.loss", {0.04}),
        ("length_of_another_row", "grpo_kernel.cu", "answer.lengths[row], *", "answer.lengths[0], *", {0.0, 0.04}),
    ],
    ids=["clip", "kl", "kernel"],
)
def test_a_mistake_is_found(
    name: str, file: str, right: str, wrong: str, betas: set[float], tmp_path: Path
) -> None:
    """A deliberate mistake in the formulas, or in the kernels alone, diverges, and only where it matters."""
    in_kernel = file == "grpo_kernel.cu"
    folder = copy_of(name, file, right, wrong)
    result = build(folder, "--cpu", *(["--on-host"] if in_kernel else []))
    assert result.returncode == 0, result.stdout + result.stderr
    options = ("--loss-type", "grpo", "--dtype", "float32")
    judgement, result = judged(folder, tmp_path / "out", "run", ON_HOST if in_kernel else OPERATOR, *options)
    assert result.returncode == 1, result.stdout + result.stderr
    rows = judgement.rows
    assert set(rows[rows["verdict"] == "diverges"]["beta"]) == betas
    assert "DIVERGES" in result.stdout


ODD_SHAPES = """
import sys
import torch

torch.ops.load_library(sys.argv[1])
for rows, columns in [(0, 0), (0, 3), (3, 0), (1, 1), (2, 4), (3, 300), (9, 13)]:
    for loss_type in ("grpo", "dapo", "dr_grpo"):
        for dtype in (torch.float64, torch.float16):
            random = torch.Generator().manual_seed(rows * 1000 + columns)
            # Of no memory order that the operator could use as it is.
            logps, old, ref, advantages, chance = torch.rand(5, columns, rows, generator=random).mT.to(dtype)
            mask = chance > 0.3
            mask[:1] = False
            per_row = advantages.sum(1) - 0.5 * columns
            for given in (advantages - 0.5, per_row):
                options = (loss_type, 0.04, 0.2, 0.3, 1.5, 7)
                loss, grad = torch.ops.lossgate_example.grpo_loss(logps, old, ref, given, mask, *options)
                assert grad.shape == logps.shape and grad[~mask].eq(0).all()
                print(loss.item().hex() if len(sys.argv) > 2 else "-", grad.tolist())
"""


def test_kernels_and_cpu_agree_on_odd_shapes(built: Path) -> None:
    """Without rows or columns, beyond a block and a grid, not contiguous: the same gradient, bit for bit."""
    cpu = run(built, sys.executable, "-c", ODD_SHAPES, "build/libgrpo.so")
    kernels = run(built, sys.executable, "-c", ODD_SHAPES, "build/libgrpo_on_host.so")
    assert cpu.returncode == kernels.returncode == 0, cpu.stderr + kernels.stderr
    assert cpu.stdout.count("\n") == 7 * 3 * 2 * 2
    assert cpu.stdout == kernels.stdout


def test_kernels_do_not_depend_on_the_order_of_threads(built: Path) -> None:
    """Loss and gradient are the same bits, whichever thread of a block runs first: no barrier is missing."""
    command = (sys.executable, "-c", ODD_SHAPES, "build/libgrpo_on_host.so", "loss")
    answers = [run(built, *command, CUDA_ON_HOST_SEED=str(seed)) for seed in range(3)]
    assert all(answer.returncode == 0 for answer in answers), answers[0].stderr
    assert len({answer.stdout for answer in answers}) == 1


AUTOGRAD = """
import torch
from torch.library import opcheck

import grpo

torch.manual_seed(0)
logps, old, ref = (torch.randn(3, 5, dtype=torch.float64) / 4 for _ in range(3))
advantages, mask = torch.randn(3, dtype=torch.float64), torch.rand(3, 5) > 0.3
logps.requires_grad_()
options = ("grpo", 0.04, 0.2, 0.3, None, 5)

def twice(logps):
    return 2 * grpo.grpo_loss(logps, old, ref, advantages, mask, *options)

assert torch.autograd.gradcheck(twice, (logps,))
operator = torch.ops.lossgate_example.grpo_loss.default
opcheck(operator, (logps, old, ref, advantages, mask, *options))
half = [tensor.detach().bfloat16() for tensor in (logps, advantages)]
opcheck(operator, (half[0].requires_grad_(), None, None, half[1], mask, "dapo", 0.0, 0.2, 0.3, 1.5, 5))
try:
    torch.autograd.grad(twice(logps) ** 2, logps, create_graph=True)[0].sum().backward()
except RuntimeError as error:
    assert "once_differentiable" in str(error), error
else:
    raise AssertionError("a second derivative was given")
"""


def test_autograd_and_fake_are_those_of_the_operator(built: Path) -> None:
    """gradcheck with an upstream factor, torch's own checks of an operator, and no second derivative."""
    result = run(built, sys.executable, "-c", AUTOGRAD)
    assert result.returncode == 0, result.stderr


REFUSALS = """
import torch

import grpo

logps, row = torch.zeros(2, 3), torch.zeros(2)
mask = torch.ones(2, 3, dtype=torch.bool)
for changes in (
    {"loss_type": "cispo"},
    {"logps": row},
    {"old_logps": logps.double()},
    {"ref_logps": logps.T, "beta": 0.1},
    {"beta": 0.1},
    {"advantages": torch.zeros(3)},
    {"mask": mask.long()},
    {"mask": mask.to("meta")},
    {"delta": 0.0},
    {"max_completion_length": 0},
):
    given = dict(logps=logps, old_logps=None, ref_logps=None, advantages=row, mask=mask) | changes
    try:
        grpo.grpo_loss(**given)
    except Exception as error:
        print(type(error).__name__, error)
"""

REFUSED = """\
NotImplementedError loss_type: got 'cispo', takes grpo, bnpo, dr_grpo or dapo
ValueError logps: got shape [2], takes (B, T)
TypeError old_logps: got Double, takes the dtype of logps, Float
ValueError ref_logps: got shape [3, 2], takes that of logps, [2, 3]
ValueError ref_logps: got None, takes a tensor when beta is not 0
ValueError advantages: got shape [3], takes (B,) or (B, T), here (B, T) is [2, 3]
TypeError mask: got Long, takes Bool
ValueError delta: got 0, takes None or a number above 0
ValueError max_completion_length: got 0, takes an integer of at least 1
"""


def test_what_does_not_fit_is_refused(built: Path) -> None:
    """Each with the exception that a caller expects, and a sentence that names the argument."""
    result = run(built, sys.executable, "-c", REFUSALS)
    assert result.returncode == 0, result.stderr
    assert result.stdout == REFUSED


def test_the_build_leaves_alone_what_is_up_to_date(built: Path) -> None:
    """A second run compiles nothing, and says what of CUDA is in the library."""
    result = build(built, "--on-host")
    assert result.returncode == 0, result.stderr
    assert ": building" not in result.stdout
    assert result.stdout.count(": up to date") == (2 if NVCC is None else 3)
    if NVCC is None:
        assert "CUDA: left out, no nvcc in CUDA_HOME, on PATH or in /usr/local/cuda" in result.stdout


def test_the_build_says_what_failed_or_is_missing() -> None:
    """Exit code 1 with the command of the compiler, 3 with what to install."""
    folder = copy_of("without_compiler")
    failed = build(folder, "--cpu", CXX="false")
    assert failed.returncode == 1
    assert "a compiler failed: exit status 1 of\n  " in failed.stderr
    missing = build(folder, "--cpu", CXX="no-such-compiler")
    assert missing.returncode == 3
    assert "missing: the compiler no-such-compiler\n  apt-get install g++" in missing.stderr
    assert not (folder / "build" / "libgrpo.so").exists()


@needs_nvcc
def test_the_cuda_sources_compile(built: Path, tmp_path: Path) -> None:
    """nvcc compiles the kernels, and the binding fits the headers of CUDA and of torch that it is written for."""
    assert (built / "build" / "grpo_kernel.o").stat().st_size > 0
    # The one header of c10/cuda that a torch without CUDA does not ship; it holds settings of the build.
    generated = tmp_path / "c10" / "cuda" / "impl" / "cuda_cmake_macros.h"
    generated.parent.mkdir(parents=True)
    generated.touch()
    headers = Path(torch.__file__).parent / "include"
    includes = [f"-I{folder}" for folder in (headers, headers / "torch/csrc/api/include", tmp_path)]
    only_check = ("-std=c++20", "-Xcompiler=-fsyntax-only", "-c", "-o", tmp_path / "nothing.o")
    result = run(built, str(NVCC), *only_check, *includes, "grpo_cuda.cpp")
    assert result.returncode == 0, result.stderr
