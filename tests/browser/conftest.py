"""A headless Chromium, and pages that lossgate made of a run with failures."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service

from tests.cli.conftest import COMMAND, EXAMPLE

JUDGED: Final = (
    *("run", "printed:loss", "fault:no_clip", "fault:none", "--loss-type", "grpo", "--level", "token"),
    *("--dtype", "float32,bfloat16", "--beta", "0", "--examples", "1", "--quiet", "--out", "run"),
)


class Browser(webdriver.Chrome):
    """Chromium with what a test asks of it."""

    def show(self, page: Path, fragment: str = "", dark: bool = False, media: str = "") -> None:
        """Open a page from disk, as if anew, in a light or dark system or on paper."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": [scheme]})
        self.get("about:blank")
        for log in ("browser", "performance"):
            self.get_log(log)
        self.get(page.as_uri() + fragment)

    @property
    def complaints(self) -> list[str]:
        """What the console says since the page was opened."""
        return [str(entry["message"]) for entry in self.get_log("browser")]

    @property
    def requests(self) -> list[str]:
        """Addresses that were asked for since the page was opened, but for those of the page's own file."""
        events = (json.loads(entry["message"])["message"] for entry in self.get_log("performance"))
        asked = [one["params"]["request"]["url"] for one in events if one["method"] == "Network.requestWillBeSent"]
        return [url for url in asked if not url.startswith((self.current_url.partition("#")[0], "data:"))]

    def run(self, script: str, *arguments: Any) -> Any:
        """What a script returns."""
        return self.execute_script(script, *arguments)  # type: ignore[no-untyped-call]  # selenium has no types


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """One browser for all tests, with a home of its own."""
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if chromium is None or driver is None:
        pytest.fail("Chromium and its driver are needed: apt-get install chromium chromium-driver", pytrace=False)
    home = tmp_path_factory.mktemp("chromium")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    # Containers run as root, which Chromium's sandbox refuses; only files made here are opened.
    for argument in ("--headless", "--no-sandbox", "--disable-gpu", "--window-size=1280,900"):
        options.add_argument(argument)
    options.add_argument(f"--user-data-dir={home / 'profile'}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    environment = {**os.environ, "HOME": str(home), "XDG_CONFIG_HOME": str(home)}
    found = Browser(options=options, service=Service(driver, env=environment))
    yield found
    found.quit()


@pytest.fixture(scope="session")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which a run has two targets that fail and one that passes; `page.html` was written by it."""
    folder = tmp_path_factory.mktemp("judged")
    (folder / "printed.py").write_text(EXAMPLE.read_text())
    result = subprocess.run(
        [COMMAND, *JUDGED, "--html", "page.html"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert result.returncode == 1, result.stderr
    return folder


@pytest.fixture
def page(judged: Path) -> Path:
    """The page of that run."""
    return judged / "page.html"


Texts = Callable[[str], list[str]]


@pytest.fixture
def texts(browser: Browser) -> Texts:
    """`texts(selector)`: what the elements that are to be seen say."""

    def found(selector: str) -> list[str]:
        script = """return [...document.querySelectorAll(arguments[0])]
            .filter(one => one.checkVisibility({visibilityProperty: true})).map(one => one.textContent.trim())"""
        return [" ".join(text.split()) for text in browser.run(script, selector)]

    return found
