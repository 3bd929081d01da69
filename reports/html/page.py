"""Templates, and a page that holds its own style and script and may load nothing else."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from reports.notation import compact, one_line

TEMPLATES: Final = Path(__file__).parent / "templates"


@cache
def environment() -> Environment:
    """The templates. What is put into them stays text, whatever it holds."""
    found = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    found.filters |= {"compact": compact, "one_line": one_line}
    return found


def rendered(template: str, **values: Any) -> str:
    """A page. Its policy allows the style and the script in it, by their hashes, and no request at all."""
    style, script = ((TEMPLATES / name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    policy = "; ".join(
        (
            "default-src 'none'",
            f"style-src '{_hash(style)}'",
            f"script-src '{_hash(script)}'",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )
    return environment().get_template(template).render(style=style, script=script, policy=policy, **values)


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
