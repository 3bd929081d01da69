"""Text that targets bring along stays text."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from reports.formats import FORMATS, ReportFormat
from reports.records import Divergence, Verdict
from reports.run import Run
from reports.store import RunWriter
from tests.browser.conftest import Browser, Texts
from tests.reports.conftest import make_record
from tests.reports.gates import facts, finding

ALARM: Final = "<img src=x onerror=\"console.error('in')\"><script>console.error('in')</script>"
TARGET: Final = f"my\"'> {ALARM} </title></style></script><!-- {{{{ 7*7 }}}} &lt;b&gt;"


def test_a_name_full_of_html_stays_text(browser: Browser, texts: Texts, tmp_path: Path) -> None:
    """Name, message, signature and facts of a target are shown as they are, and none of them acts."""
    wrong = make_record(
        target=TARGET,
        case_id="0" * 12,
        verdict=Verdict.DIVERGES,
        loss=Divergence(1.0, 2.0, 3.0),
        message=f"seen: {ALARM}",
    )
    about = facts([TARGET], findings=[finding(wrong, f"computes {ALARM}")], exit_code=1, platform=ALARM)
    about["targets"][TARGET]["versions"] = {ALARM: ALARM}
    writer = RunWriter.create(tmp_path / "run", {})
    writer.add(wrong, seconds=0.1)
    writer.save_reproducer("0" * 12 + ".py", f"</pre>{ALARM}")
    writer.finish(about, complete=True)
    page = tmp_path / "page.html"
    page.write_text(FORMATS[ReportFormat.HTML](Run.load(tmp_path / "run")))
    browser.show(page)
    (anchor,) = browser.run("return [...document.querySelectorAll('.body')].map(one => one.id)")
    browser.show(page, f"#{anchor}")
    assert browser.complaints == []
    assert browser.requests == []
    assert browser.run("return document.querySelectorAll('img').length + document.scripts.length") == 1
    (name,) = texts(".cell .name")
    assert name == f"{TARGET} grpo token beta 0.04 float32"
    assert texts(f"[id='{anchor}'] .finding") == [f"computes {ALARM}"]
    assert texts(f"[id='{anchor}'] .seen") == [f"seen: {ALARM}"]
    assert TARGET in browser.title
    assert f"</pre>{ALARM}" in browser.run("return document.querySelector('.script pre').textContent")
