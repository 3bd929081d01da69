"""What the files of a run that belong to a cell's witness are called."""

from __future__ import annotations

import re


def witness_name(case_id: str, label: str, alone: bool) -> str:
    """The name of a witness's file, without its ending.

    By the case, and by the target's `label` too unless it is `alone`: a case may be the witness of several.
    """
    return case_id if alone else f"{case_id}-{re.sub(r'[^A-Za-z0-9.]+', '-', label).strip('-.')}"
