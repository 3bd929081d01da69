"""A Python callable, or an operator of a compiled library, with its arguments by the names it has for them."""

from __future__ import annotations

import re
from typing import Final

from harness.reproducer.finding import Finding
from harness.reproducer.kind import Kind, text
from harness.reproducer.parameters import called
from harness.reproducer.tensors import NAMES
from reports.records import Verdict

_CHANGED: Final = re.compile(r"changed its input '(\w+)' in place")
_CASTS: Final = ("int", "float")
_TENSORS_OF: Final = {
    "token_advantages": "advantages",
    "completion_advantages": "advantages",
    "full_mask": "mask",
    "num_items_in_batch": "mask",
}
_ANSWERS: Final = {
    "loss": ("loss = ", ""),
    "sequence": ("loss = ", "[0]"),
    "mapping": ("loss = ", '["loss"]'),
    "gradient": ("loss, gradient = ", "[:2]"),
}


def kind(finding: Finding) -> Kind:
    """The kind of a callable of a user's own. Raises `NoScript` where it does not say what its parameters are."""
    how = called(finding)
    there = [name for name in NAMES if getattr(finding.case.batch, name) is not None]
    used = {_TENSORS_OF.get(offered, offered) for offered, _ in how.given.values()} | {"logps", "mask"}
    library, _, operator = finding.name.partition("#")
    module, _, path = finding.name.partition(":")
    changed = _CHANGED.search(finding.message) if finding.verdict is Verdict.ERROR else None
    assigned, taken = _ANSWERS[how.form]
    return Kind(
        template="callable.py.j2",
        what=library if operator else module,
        third_party=(),
        missing="(ImportError, OSError)" if operator else "ImportError",
        own_module="" if operator else module,
        where=f"in the folder from which {library} is found" if operator else f"where {module} can be imported",
        tensors=tuple(name for name in there if name in used),
        mask_dtype="bool",
        values={
            "library": library if operator else "",
            "function": f"torch.ops.{operator.replace('::', '.')}" if operator else f"{module}.{path}",
            "arguments": [
                f"{parameter}={_value(offered, takes, finding)}"
                for parameter, (offered, takes) in how.given.items()
            ],
            "assigned": assigned,
            "taken": taken,
            "has_gradient": how.form == "gradient",
            "changed": changed[1] if changed else "",
        },
    )


def _value(offered: str, takes: str, finding: Finding) -> str:
    """What is given for an argument, as Python."""
    batch, spec = finding.case.batch, finding.case.spec
    expressions = {
        "token_advantages": "advantages"
        if batch.advantages.ndim == 2
        else f"advantages.unsqueeze(1).repeat(1, {batch.columns})",
        "completion_advantages": "advantages",
        "full_mask": "mask",
        "num_items_in_batch": f"{takes}(mask.sum())" if takes in _CASTS else "mask.sum()",
        "batch_size": str(batch.rows),
        "epsilon": repr(spec.epsilon_low),
        "use_bias_correction_kl": str(spec.kl_estimator == "k3_bias_corrected"),
    }
    if offered in expressions:
        return expressions[offered]
    if offered in NAMES:
        return "None" if getattr(batch, offered) is None else offered
    value = getattr(spec, offered)
    return text(value) if isinstance(value, str) else repr(value)
