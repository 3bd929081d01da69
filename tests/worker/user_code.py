"""A user's module to open a target from, and a case as tensors to ask it with."""

from __future__ import annotations

import itertools
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from harness.worker.target import Spec, Split, Target, TensorCase
from harness.worker.targets import function

SPEC = Spec("grpo", "token", 0.0, 0.1, 0.3, max_completion_length=17)

_NUMBERS = itertools.count()


def tensor_case(off_policy: bool = False, **changes: Any) -> TensorCase:
    """Two completions of three tokens."""
    return TensorCase(
        dtype=torch.float32,
        device=torch.device("cpu"),
        logps=torch.full((2, 3), -1.0, requires_grad=True),
        old_logps=torch.full((2, 3), -1.5) if off_policy else None,
        ref_logps=torch.full((2, 3), -2.0),
        advantages=torch.ones(2),
        mask=torch.ones((2, 3), dtype=torch.bool),
        spec=replace(SPEC, **changes),
        split=Split(),
    )


def open_source(folder: Path, source: str, path: str = "loss", **options: str) -> Target:
    """Write a module and open something of it as a target."""
    # A module is imported once in a process, so each is another.
    module = f"opened_{next(_NUMBERS)}"
    (folder / f"{module}.py").write_text(source)
    sys.path.insert(0, str(folder))
    try:
        return function.open_target(f"{module}:{path}", options)
    finally:
        sys.path.remove(str(folder))
