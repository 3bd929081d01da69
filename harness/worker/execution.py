"""How a target's calls are carried out where that is asked for: threads, a compiler; and what was in force.

A compiler may give up without a word and run what it was given as it is. So what is counted here is not what was
compiled but what ran of it: the calls of compiled graphs, case by case.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, Callable

import torch

from . import pins
from .target import Target, Unavailable

COMPILERS = ("inductor",)

# A cell of its own shape, dtype or constants is a compilation of its own; beyond the limit dynamo runs eagerly.
_COMPILATIONS = 100_000


class Execution:
    """The options `threads`, `compile` and `device` of a target that is opened as one of several executions."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._threads = int(options.get("threads", pins.threads()))
        self._compiler = options.get("compile", "")
        self._device = torch.device(options.get("device", "cpu"))
        self._calls = self._compiled = self._operations = 0

    @classmethod
    def asked_for(cls, options: Mapping[str, str]) -> Execution | None:
        """The execution that the options ask for; None where they say nothing of it."""
        return cls(options) if "threads" in options or "compile" in options else None

    def prepare(self, target: Target) -> None:
        """Have the target's calls carried out so. Raises `Unavailable` where this torch cannot."""
        pins.hold_threads(self._threads)
        if not self._compiler:
            return
        if self._compiler not in COMPILERS:
            known = ", ".join(COMPILERS)
            raise Unavailable("unknown", f"no compiler named {self._compiler!r}; known here: {known}")
        _allow_compilations()
        target.compile(self._wrapped)

    def report(self) -> dict[str, Any]:
        """What ran since the last report, and the settings that are in force now, as JSON."""
        said = {
            "graphs": self._calls,
            "compiled": self._compiled,
            "operations": self._operations,
            "settings": settings(self._device, self._compiler),
        }
        self._calls = self._compiled = self._operations = 0
        return said

    def _wrapped(self, function: Callable[..., Any]) -> Callable[..., Any]:
        # Sizes and numbers are constants of what is compiled, as they are when a user compiles a loss.
        compiled: Callable[..., Any] = torch.compile(function, backend=self._counting, dynamic=False)
        return compiled

    def _counting(self, graph: Any, inputs: Any) -> Callable[..., Any]:
        from torch._dynamo.backends.registry import lookup_backend

        run = lookup_backend(self._compiler)(graph, inputs)
        self._compiled += 1
        self._operations += sum(node.op.startswith("call") for node in graph.graph.nodes)

        def counted(*arguments: Any) -> Any:
            self._calls += 1
            return run(*arguments)

        return counted


def _allow_compilations() -> None:
    try:
        from torch._dynamo import config
    except ImportError as error:
        raise Unavailable("execution", f"torch {torch.__version__} cannot compile: {error}") from None
    # The limits' names changed with torch 2.6.
    for name in (
        "recompile_limit",
        "cache_size_limit",
        "accumulated_recompile_limit",
        "accumulated_cache_size_limit",
    ):
        if hasattr(config, name):
            setattr(config, name, _COMPILATIONS)
    # Where it cannot compile, it must say so.
    config.suppress_errors = False


def settings(device: torch.device, compiler: str) -> dict[str, Any]:
    """The settings of torch that change how numbers are rounded, as they are at the moment."""
    read: dict[str, Callable[[], Any]] = {
        "float32_matmul_precision": torch.get_float32_matmul_precision,
        "flush_denormal": lambda: _flushes(device),
    }
    if device.type == "cuda":
        matmul = torch.backends.cuda.matmul
        read.update(
            {
                "tf32_matmul": lambda: matmul.allow_tf32,
                "tf32_cudnn": lambda: torch.backends.cudnn.allow_tf32,
                "bf16_reduced_precision_reduction": lambda: matmul.allow_bf16_reduced_precision_reduction,
                "fp16_reduced_precision_reduction": lambda: matmul.allow_fp16_reduced_precision_reduction,
            }
        )
    found = {name: _read(get) for name, get in read.items()}
    if compiler == "inductor":
        found.update(_of_inductor())
    return found


def _flushes(device: torch.device) -> bool:
    """Whether a float32 product below the smallest normal number becomes 0 here."""
    tiny = torch.full((1,), 2.0**-100, dtype=torch.float32, device=device)
    return bool((tiny * 2.0**-30).item() == 0.0)


def _of_inductor() -> dict[str, Any]:
    from torch._inductor import config

    named = {
        "inductor_fast_math": (config, "use_fast_math"),
        "inductor_unsafe_math": (config.cpp, "enable_unsafe_math_opt_flag"),
        "inductor_contracts_products": (config.cpp, "enable_floating_point_contract_flag"),
        "inductor_rounds_as_eager": (config, "emulate_precision_casts"),
    }
    return {name: getattr(owner, key) for name, (owner, key) in named.items() if hasattr(owner, key)}


def _read(get: Callable[[], Any]) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            value = get()
    # Newer releases refuse to read a setting that was made through another interface.
    except RuntimeError as error:
        return f"cannot be read: {str(error).splitlines()[0]}"
    return value if isinstance(value, (bool, int, float, str)) else str(value)
