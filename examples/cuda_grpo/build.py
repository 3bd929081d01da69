"""Build the GRPO operator: `python build.py`, with the Python whose torch is going to load it.

    build/libgrpo.so          the operator; with its CUDA part where nvcc and a torch with CUDA are here
    build/grpo_kernel.o       its kernels; with a torch without CUDA no more than the proof that they compile
    build/libgrpo_on_host.so  with --on-host: the CUDA part run by the CPU, to judge it without a GPU

What is up to date is left alone. CXXFLAGS and NVCCFLAGS are added to what g++ and nvcc are given.
Exit codes: 0 built or up to date, 1 a compiler failed, 2 wrong usage, 3 something is missing.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
BUILD = HERE / "build"
WARNINGS = ("-Wall", "-Wextra")


class Missing(Exception):
    """Something that the build needs is not here; the text says what, and what to do."""


class Failed(Exception):
    """A compiler failed, after it said why."""


@dataclass(frozen=True)
class Torch:
    """The torch that loads what is built: its headers and libraries; `cuda` is "" where it has none.

    `devices` are the compute capabilities of the GPUs here, such as (9, 0).
    """

    version: str
    root: Path
    cxx11_abi: bool
    cuda: str
    devices: tuple[tuple[int, int], ...]

    @classmethod
    def here(cls) -> Torch:
        """The torch of this Python. Raises `Missing`."""
        try:
            import torch
        except ImportError as error:
            raise Missing(f"a torch that {sys.executable} can import: {error}") from None
        cuda = torch.version.cuda or ""
        count = torch.cuda.device_count() if cuda else 0
        devices = {torch.cuda.get_device_capability(number) for number in range(count)}
        root = Path(torch.__file__).parent
        return cls(torch.__version__, root, torch.compiled_with_cxx11_abi(), cuda, tuple(sorted(devices)))

    @property
    def compile_flags(self) -> tuple[str, ...]:
        headers = self.root / "include"
        flags = ["-std=c++20", "-O2", f"-D_GLIBCXX_USE_CXX11_ABI={int(self.cxx11_abi)}"]
        for folder in (headers, headers / "torch" / "csrc" / "api" / "include"):
            # As system headers, so that their warnings stay out of ours.
            flags += ["-isystem", str(folder)]
        return tuple(flags)

    @property
    def link_flags(self) -> tuple[str, ...]:
        names = ("c10", "torch_cpu", "torch", *(("c10_cuda", "torch_cuda") if self.cuda else ()))
        return (f"-L{self.root / 'lib'}", *(f"-l{name}" for name in names))

    @property
    def device_flags(self) -> tuple[str, ...]:
        """For the GPUs here; where there is none, for sm_80 and what newer ones can translate from it."""
        if not self.devices:
            return ("-gencode=arch=compute_80,code=[sm_80,compute_80]",)
        return tuple(f"-gencode=arch=compute_{a}{b},code=sm_{a}{b}" for a, b in self.devices)


@dataclass(frozen=True)
class Step:
    """One command that makes one file of `build/` from files of this folder."""

    output: str
    sources: tuple[str, ...]
    command: tuple[str, ...]

    def run(self, torch: Torch) -> None:
        """Run the command, unless its file is there and was made from the same. Raises `Failed`."""
        target, stamp = BUILD / self.output, BUILD / f"{self.output}.stamp"
        made_from = self._made_from(torch)
        if target.exists() and stamp.exists() and stamp.read_text() == made_from:
            print(f"build/{self.output}: up to date", flush=True)
            return
        print(f"build/{self.output}: building", flush=True)
        BUILD.mkdir(exist_ok=True)
        fresh = BUILD / f"{os.getpid()}-{self.output}"
        try:
            done = subprocess.run([*self.command, "-o", str(fresh)], cwd=HERE, check=False)
            if done.returncode != 0:
                raise Failed(f"exit status {done.returncode} of\n  {shlex.join(self.command)}")
            # In one step: a process that has the old file loaded keeps it.
            fresh.replace(target)
        finally:
            fresh.unlink(missing_ok=True)
        stamp.write_text(made_from)

    def _made_from(self, torch: Torch) -> str:
        digest = hashlib.sha256(repr((torch, self.command, _version(self.command[0]))).encode())
        for source in (*self.sources, *(path.name for path in sorted(HERE.glob("*.h")))):
            digest.update((HERE / source).read_bytes())
        return digest.hexdigest()


def build(with_cuda: bool, on_host: bool) -> None:
    """Build what can be built here, and say what cannot. Raises `Missing`, `Failed`."""
    gxx = _gxx()
    torch = Torch.here()
    nvcc = _nvcc() if with_cuda else None
    if nvcc and torch.cuda:
        _check_release(nvcc, torch)
    if nvcc:
        _kernel(nvcc, torch).run(torch)
    if nvcc and torch.cuda:
        _library_with_cuda(nvcc, torch).run(torch)
    else:
        _library(gxx, torch).run(torch)
    if with_cuda and not nvcc:
        print("CUDA: left out, no nvcc in CUDA_HOME, on PATH or in /usr/local/cuda", flush=True)
    elif nvcc and not torch.cuda:
        print(f"CUDA: the kernels compile; left out of libgrpo.so, torch {torch.version} has no CUDA", flush=True)
    if on_host:
        _library_on_host(gxx, torch).run(torch)


def _kernel(nvcc: str, torch: Torch) -> Step:
    source = "grpo_kernel.cu"
    command = (*_nvcc_command(nvcc, torch), *torch.device_flags, "-c", source)
    return Step("grpo_kernel.o", (source,), command)


def _library_with_cuda(nvcc: str, torch: Torch) -> Step:
    sources = ("grpo_cpu.cpp", "grpo_cuda.cpp")
    # The runtime of CUDA that torch has loaded, not a second one inside the library.
    command = (*_nvcc_command(nvcc, torch), "-cudart=shared", "-shared", *sources, "build/grpo_kernel.o")
    return Step("libgrpo.so", (*sources, "grpo_kernel.cu"), (*command, *torch.link_flags))


def _library(gxx: str, torch: Torch) -> Step:
    source = "grpo_cpu.cpp"
    return Step("libgrpo.so", (source,), (*_gxx_command(gxx, torch), "-shared", source, *torch.link_flags))


def _library_on_host(gxx: str, torch: Torch) -> Step:
    source = "on_host/grpo_on_host.cpp"
    stand_ins = sorted(str(path.relative_to(HERE)) for path in (HERE / "on_host").rglob("*.h"))
    # Before torch's headers, some of which they stand in for.
    first = ("-Ion_host", "-I.")
    command = (*_gxx_command(gxx, torch), *first, "-shared", source, *torch.link_flags)
    return Step("libgrpo_on_host.so", (source, "grpo_cuda.cpp", "grpo_kernel.cu", *stand_ins), command)


def _gxx_command(gxx: str, torch: Torch) -> tuple[str, ...]:
    return (gxx, *torch.compile_flags, "-fPIC", *WARNINGS, *shlex.split(os.environ.get("CXXFLAGS", "")))


def _nvcc_command(nvcc: str, torch: Torch) -> tuple[str, ...]:
    options = (f"-Xcompiler={','.join(('-fPIC', *WARNINGS))}", *shlex.split(os.environ.get("NVCCFLAGS", "")))
    return (nvcc, *torch.compile_flags, *options)


def _gxx() -> str:
    name = os.environ.get("CXX", "g++")
    found = shutil.which(name)
    if found is None:
        raise Missing(
            f"the compiler {name}"
            "\n  apt-get install g++ (Debian, Ubuntu), dnf install gcc-c++ (Fedora), or set CXX"
        )
    return found


def _nvcc() -> str | None:
    home = os.environ.get("CUDA_HOME")
    folders = [f"{home}/bin"] if home else []
    folders += [os.environ.get("PATH", ""), "/usr/local/cuda/bin"]
    return shutil.which("nvcc", path=os.pathsep.join(folders))


def _check_release(nvcc: str, torch: Torch) -> None:
    """Two releases of CUDA's runtime do not mix in one process. Raises `Missing`."""
    match = re.search(r"release (\d+)\.", _version(nvcc))
    release = match[1] if match else "unknown"
    if release != torch.cuda.split(".")[0]:
        raise Missing(
            f"nvcc of CUDA {torch.cuda}, for which torch {torch.version} was built; {nvcc} is of release {release}"
            "\n  set CUDA_HOME to where it is, or pass --cpu"
        )


def _version(compiler: str) -> str:
    return subprocess.run([compiler, "--version"], capture_output=True, text=True, check=False).stdout


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    parser = argparse.ArgumentParser(description="Build the GRPO operator into build/.")
    parser.add_argument("--cpu", action="store_true", help="leave CUDA out, even where nvcc is")
    parser.add_argument("--on-host", action="store_true", help="also build the CUDA part to be run by the CPU")
    options = parser.parse_args(arguments)
    try:
        build(not options.cpu, options.on_host)
    except Failed as failure:
        print(f"build.py: a compiler failed: {failure}", file=sys.stderr)
        return 1
    except Missing as failure:
        print(f"build.py: missing: {failure}", file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
