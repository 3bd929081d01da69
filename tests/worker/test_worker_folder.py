"""What may be in the folder that is handed to a target's interpreter."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

from harness.worker_process import BOOTSTRAP, WORKER

FILES = sorted(WORKER.rglob("*.py"))

# What the adapters of a folder may import, in the functions that open a target.
LIBRARIES = {"trl": {"trl", "transformers", "tokenizers", "datasets"}}


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(WORKER)))
def test_a_file_needs_only_python_3_9_and_torch(file: Path) -> None:
    """It is written in the grammar of 3.9, and imports the standard library, torch and its neighbours."""
    tree = ast.parse(file.read_text(), feature_version=(3, 9))
    at_import = {id(node) for node in tree.body}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            modules = [node.module or ""]
        else:
            continue
        allowed = set(sys.stdlib_module_names) | {"torch"}
        if id(node) not in at_import:
            allowed |= LIBRARIES.get(file.parent.name, set())
        assert {module.partition(".")[0] for module in modules} <= allowed


def test_what_starts_the_worker_parses_on_every_python() -> None:
    """A Python that is too old must come as far as saying so."""
    ast.parse(BOOTSTRAP, feature_version=(3, 4))
    assert 'f"' not in BOOTSTRAP
