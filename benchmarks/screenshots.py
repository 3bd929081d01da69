"""The two pictures of a report in the documentation, taken anew: a failing run, in light and in dark mode.

    python -m benchmarks.screenshots [FOLDER]

It needs Chromium with its driver, and Selenium; FOLDER is docs by default.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from selenium import webdriver
from selenium.webdriver.chrome.service import Service

LOSSGATE: Final = Path(sys.executable).with_name("lossgate")
JUDGED: Final = (
    *("run", "trl==1.9.0", "--loss-type", "luspo,dapo,grpo", "--dtype", "float32", "--examples", "16"),
    *("--quiet", "--out", "run", "--html", "report.html"),
)
CELL: Final = "trl-1.9.0-luspo-token-beta-0.04-float32"
PICTURES: Final = {"report-light.png": ("light", "", 900), "report-dark.png": ("dark", f"#{CELL}", 1300)}
WIDTH: Final = 1200


def main() -> int:
    """Judge, and take the pictures."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "docs").absolute()
    with tempfile.TemporaryDirectory() as place:
        # The cache may be given relative to here.
        cache = os.environ.get("LOSSGATE_CACHE")
        environment = {**os.environ, **({"LOSSGATE_CACHE": os.path.abspath(cache)} if cache else {})}
        subprocess.run([LOSSGATE, *JUDGED], cwd=place, env=environment, stdout=subprocess.DEVNULL, check=False)
        page = Path(place) / "report.html"
        browser = _browser(Path(place) / "profile")
        try:
            for name, (scheme, fragment, height) in PICTURES.items():
                _take(browser, f"{page.as_uri()}{fragment}", scheme, height, folder / name)
        finally:
            browser.quit()
    return 0


def _browser(profile: Path) -> Any:
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if chromium is None or driver is None:
        raise SystemExit("Chromium and its driver are needed: apt-get install chromium chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    # Containers run as root, which Chromium's sandbox refuses; only a file made here is opened.
    for argument in (
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
        f"--user-data-dir={profile}",
    ):
        options.add_argument(argument)
    return webdriver.Chrome(options=options, service=Service(driver))


def _take(browser: Any, address: str, scheme: str, height: int, picture: Path) -> None:
    size = {"width": WIDTH, "height": height, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    feature = {"name": "prefers-color-scheme", "value": scheme}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
    browser.get("about:blank")
    browser.get(address)
    browser.save_screenshot(str(picture))


if __name__ == "__main__":
    raise SystemExit(main())
