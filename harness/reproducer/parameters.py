"""What a callable is given for a case and in which form it answers: asked of it, in the target's interpreter."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import tempfile
from dataclasses import dataclass
from typing import Final

from harness.outcome import case_request
from harness.reproducer.finding import Finding, NoScript
from harness.worker_process import ENVIRONMENT, WORKER, find_python

# The worker's folder becomes a package of a name of its own, and the current folder comes first on the path, as
# where the target is judged.
_QUESTION: Final = """\
import functools, importlib, importlib.util, json, os, resource, sys
# What it prints must not fill the disk.
resource.setrlimit(resource.RLIMIT_FSIZE, (2**24, 2**24))
from collections.abc import Mapping
MARK, worker, name, loss_type = sys.argv[1:]
spec = importlib.util.spec_from_file_location(
    "lossgate_worker", worker + "/__init__.py", submodule_search_locations=[worker]
)
sys.modules[spec.name] = importlib.util.module_from_spec(spec)
import torch

def ours(module):
    return importlib.import_module("lossgate_worker." + module)

request = ours("protocol").read_message(lambda size: os.read(0, size), bytearray())
case = ours("tensors").case_from(request)
target = ours("registry").open_target(name, {"loss_type": loss_type})
library, _, path = name.partition("#")
if path:
    found = functools.reduce(getattr, path.replace("::", ".").split("."), torch.ops)
else:
    module, _, path = name.partition(":")
    found = functools.reduce(getattr, path.split("."), sys.modules[module])
if isinstance(found, torch._ops.OpOverloadPacket):
    overloads = found.overloads()
    found = getattr(found, overloads[0] if len(overloads) == 1 else "default")
signatures = ours("targets.signatures")
if isinstance(found, torch._ops.OpOverload):
    parameters = tuple(signatures.schema_parameters(found._schema))
else:
    parameters = signatures.parameters_of(name, found)
arguments = ours("targets.arguments").Arguments(name, parameters).values(case)
offered = ours("targets.offered").BY_NAME
given = {one.name: [offered[one.name].name, one.takes] for one in parameters if one.name in arguments}
print(MARK, json.dumps(given), flush=True)
result = found(**arguments)
if target.answer(case).gradient is not None:
    form = "gradient"
elif isinstance(result, Mapping):
    form = "mapping"
else:
    form = "sequence" if isinstance(result, (tuple, list)) else "loss"
print(MARK, json.dumps(form), flush=True)
"""


_MARK: Final = "lossgate:"
_SECONDS: Final = 60.0
_MOST_PRINTED: Final = 2**20


@dataclass(frozen=True)
class Called:
    """How a callable is called.

    `given` has, for each parameter, the name of what is offered for it and the type that its schema has, or "";
    `form` is what it returns: "loss", a "sequence" or "mapping" with it, or loss and "gradient".
    """

    given: dict[str, tuple[str, str]]
    form: str


def called(finding: Finding) -> Called:
    """Ask a callable, and have it answer the case once. Raises `NoScript` where it does not say."""
    environment: dict[str, str] = {**os.environ, **ENVIRONMENT}
    environment.pop("PYTHONSAFEPATH", None)
    request = case_request(finding.case, finding.device, finding.instead)
    told = (_MARK, str(WORKER), finding.name, str(finding.case.spec.loss_type))
    with tempfile.TemporaryFile() as output:
        # What it was given was printed before it was called: late, it has said enough.
        with contextlib.suppress(subprocess.TimeoutExpired):
            subprocess.run(
                [find_python(finding.python), "-c", _QUESTION, *told],
                input=request,
                env=environment,
                stdout=output,
                stderr=subprocess.DEVNULL,
                timeout=_SECONDS,
                check=False,
            )
        output.seek(0)
        printed = output.read(_MOST_PRINTED)
    answers = [
        json.loads(line.removeprefix(_MARK))
        for line in printed.decode(errors="replace").splitlines()
        if line.startswith(_MARK)
    ]
    if not answers:
        raise NoScript(f"{finding.name} did not say which parameters it has")
    # It says no more where it raises, or dies.
    given, form = answers if len(answers) == 2 else (answers[0], "loss")
    return Called({name: (offered, takes) for name, (offered, takes) in given.items()}, form)
