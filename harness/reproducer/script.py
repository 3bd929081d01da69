"""A finding as a script."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from cases.case import Case
from harness.reproducer.answers import OneAnswer, allowed_apart, right_answers
from harness.reproducer.docstring import docstring, size
from harness.reproducer.finding import Finding, check_name, check_size
from harness.reproducer.kind import Describe, Kind
from harness.reproducer.kinds import callables, liger, openrlhf, trl, unsloth, verl
from harness.reproducer.numbers import array
from harness.reproducer.tensors import assignments
from oracles.expectation import Expectation, expect
from reports.records import Verdict

MOST_LINES: Final = 32
"""Gradient elements of which each is printed, and not only those that differ."""

_LIBRARIES: Final[dict[str, Describe]] = {
    "trl": trl.kind,
    "liger": liger.kind,
    "verl": verl.kind,
    "openrlhf": openrlhf.kind,
    "unsloth": unsloth.kind,
}
_HALF: Final = ("bfloat16", "float16")
_DIGITS: Final = {"float64": ".17g", "float32": ".9g", "bfloat16": ".4g", "float16": ".5g"}
_TEMPLATES: Final = Environment(
    loader=FileSystemLoader(Path(__file__).parent / "templates"),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)


def script(finding: Finding) -> str:
    """The text of the script. Raises `NoScript` where there can be none."""
    check_size(finding.case)
    kind = _kind(finding)
    expectation = expect(finding.case)
    return _TEMPLATES.get_template(kind.template).render(_values(finding, kind, expectation))


def _kind(finding: Finding) -> Kind:
    check_name(finding.name)
    if finding.library in _LIBRARIES:
        return _LIBRARIES[finding.library](finding)
    # Only a trainer says which libraries it stands on.
    return trl.kind(finding) if "from" in finding.facts.versions else callables.kind(finding)


def _values(finding: Finding, kind: Kind, expectation: Expectation) -> dict[str, Any]:
    case = finding.case
    answer = OneAnswer.of(expectation)
    repeated = finding.verdict is Verdict.NONDETERMINISTIC
    imports = {"import sys", *kind.imports}
    if answer is None and not repeated:
        imports.add("import math")
    if kind.stand_ins:
        imports |= {"import importlib.abc", "import importlib.machinery"}
    apart = allowed_apart(expectation) if repeated else ("", "")
    answers = "" if repeated or answer else right_answers(case, expectation)
    return {
        "docstring": docstring(finding, kind),
        "imports": sorted(imports),
        "third_party": kind.third_party,
        "own_module": kind.own_module,
        "missing": kind.missing,
        "stand_ins": ", ".join(f'"{name}"' for name in kind.stand_ins if "." not in name),
        "modules_stood_in": [name for name in kind.stand_ins if "." in name],
        "step": _step(case),
        "package": kind.what.partition(" ")[0],
        "what": kind.what,
        "device": finding.device,
        "size": size(case),
        "names": kind.tensors,
        "tensors": assignments(finding, kind.tensors, kind.mask_dtype, kind.instead),
        "rows": case.batch.rows,
        "columns": case.batch.columns,
        "is_half": case.batch.dtype.name in _HALF,
        "dtype": case.batch.dtype.name,
        "digits": _DIGITS[case.batch.dtype.name],
        "split": case.split,
        "beta": case.spec.beta,
        "repeated": repeated,
        "allowed_loss": apart[0],
        "allowed_gradient": apart[1],
        "answer": answer,
        "is_large": case.batch.mask.size > MOST_LINES,
        "right_answers": answers,
        "none_is_there": "None" in answers,
        "because": _because(expectation),
        **kind.values,
    }


def _step(case: Case) -> str:
    """The rows of the micro-batches of the judged step, per rank, as Python."""
    ranks = case.split.judged(case.batch.rows)
    return array([[f"slice({part.start}, {part.stop})" for part in rank] for rank in ranks], len("step = "))


def _because(expectation: Expectation) -> str:
    """Why there is more than one right answer."""
    reasons = []
    if expectation.others:
        reasons.append("rounding decides whether a token is masked as off-policy")
    if len(expectation.gradients) > 1 or expectation.hull is not None:
        reasons.append("rounding decides a minimum or a clip")
    if expectation.loss_overflows or expectation.gradient_overflows.any():
        reasons.append("an intermediate exceeds the dtype")
    return ", and ".join(reasons)
