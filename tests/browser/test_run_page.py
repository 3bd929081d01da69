"""The page of a run with failures, in a real browser."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select, WebDriverWait

from tests.browser.conftest import Browser, Texts

CELL: Final = "printed-loss-grpo-token-beta-0-float32"
CONTRAST: Final = """
const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
const light = (colour) => {
  canvas.fillStyle = colour;
  canvas.fillRect(0, 0, 1, 1);
  const [r, g, b] = [...canvas.getImageData(0, 0, 1, 1).data].map((v) => v / 255)
    .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const ground = (one) => {
  for (; one; one = one.parentElement) {
    const colour = getComputedStyle(one).backgroundColor;
    if (!colour.endsWith(", 0)")) return colour;
  }
  return "Canvas";
};
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
let least = [99, ""];
while (walker.nextNode()) {
  const one = walker.currentNode.parentElement;
  if (!walker.currentNode.data.trim() || !one.checkVisibility() || one.closest("script, option, svg")) continue;
  const pair = [light(getComputedStyle(one).color), light(ground(one))].sort((a, b) => b - a);
  const contrast = (pair[0] + 0.05) / (pair[1] + 0.05);
  if (contrast < least[0]) least = [contrast, walker.currentNode.data.trim()];
}
return least;
"""


def choose(browser: Browser, name: str, value: str) -> None:
    """Choose in one of the filters."""
    Select(browser.find_element(By.NAME, name)).select_by_value(value)


def is_open(browser: Browser, cell: str) -> bool:
    """Whether the detail of a cell is open, and to be seen without scrolling."""
    script = """const cell = document.getElementById(arguments[0]).closest("details");
        const top = cell.getBoundingClientRect().top;
        return cell.open && cell.checkVisibility() && top >= 0 && top < innerHeight"""
    return bool(browser.run(script, cell))


@pytest.mark.parametrize("dark", [False, True])
def test_it_opens_without_a_complaint_or_a_request(browser: Browser, page: Path, dark: bool) -> None:
    """The page is whole in itself: nothing is asked of the network, and the console stays empty."""
    browser.show(page, f"#{CELL}", dark)
    assert browser.complaints == []
    assert browser.requests == []


def test_it_cannot_ask_for_anything(browser: Browser, page: Path) -> None:
    """Even a script that got into the page could send nothing: the page's own policy forbids it."""
    browser.show(page)
    script = (
        "const done = arguments[0]; fetch('http://127.0.0.1:9/').then(() => done('sent'), () => done('refused'))"
    )
    assert browser.execute_async_script(script) == "refused"
    assert any("Content Security Policy" in complaint for complaint in browser.complaints)


def test_the_first_screen(browser: Browser, page: Path, texts: Texts) -> None:
    """Verdict, what was tested and the table of the first target are seen without scrolling."""
    browser.show(page)
    assert texts("h1") == ["✗ fails: 4 of 6 cells fail"]
    assert "seed 0" in texts(".facts > div")
    low = browser.run("return document.querySelector('.grid tbody').getBoundingClientRect().bottom - innerHeight")
    assert low < 0
    assert texts(".grid td")[0].startswith("✗ diverges")
    assert any("computes bnpo" in text for text in texts(".wrong"))


def test_filters(browser: Browser, page: Path, texts: Texts) -> None:
    """What does not fit is gone from table and list alike; Reset brings it back."""
    browser.show(page)
    choose(browser, "target", "fault:no_clip")
    choose(browser, "dtype", "bfloat16")
    assert texts(".cell .name") == ["fault:no_clip grpo token beta 0 bfloat16"]
    assert len(texts(".grid td a")) == 1
    assert texts("output") == ["1 of 6 cells"]
    choose(browser, "verdict", "overflow")
    assert texts(".cell .name") == []
    assert texts("#none") == ["No cell is as the filters say."]
    browser.find_element(By.CSS_SELECTOR, "button[type=reset]").click()
    WebDriverWait(browser, 5).until(lambda _: len(texts(".cell .name")) == 6)
    assert len(texts(".grid td a")) == 6


def test_sorting(browser: Browser, page: Path, texts: Texts) -> None:
    """By name, by size of the error, and back to worst first."""
    browser.show(page)
    worst_first = texts(".cell .name")
    assert "fault:none" not in " ".join(worst_first[:4])
    choose(browser, "sort", "target")
    assert [name.split()[0] for name in texts(".cell .name")[:4]] == ["fault:no_clip"] * 2 + ["fault:none"] * 2
    choose(browser, "sort", "error")
    errors = [float(one.get_attribute("data-error") or "") for one in browser.find_elements(By.CLASS_NAME, "cell")]
    assert errors == sorted(errors, reverse=True)
    choose(browser, "sort", "rank")
    assert texts(".cell .name") == worst_first


def test_a_link_lands_in_an_open_cell(browser: Browser, page: Path, texts: Texts) -> None:
    """An address with a fragment opens that cell, where its detail says what is wrong and how to see it again."""
    browser.show(page, f"#{CELL}")
    assert is_open(browser, CELL)
    assert texts(f"#{CELL} .finding") == ["computes bnpo"]
    row, token, *_, expected, got, _ = texts(f"#{CELL} .tokens tr:first-child td")
    assert (row, token, expected) == ("0", "0", "-0.5")
    assert float(got) == pytest.approx(-1 / 3)
    assert any(text.startswith("lossgate replay run/cases/") for text in texts(f"#{CELL} pre"))
    assert browser.run("return document.activeElement.id") == CELL


def test_a_link_to_a_cell_that_is_filtered_out(browser: Browser, page: Path) -> None:
    """It is shown, filters or not."""
    browser.show(page)
    choose(browser, "target", "fault:none")
    browser.run(f"location.hash = '{CELL}'")
    WebDriverWait(browser, 5).until(lambda _: is_open(browser, CELL))


def test_keyboard(browser: Browser, page: Path) -> None:
    """From the top, by Tab and Enter alone: past the table, into a cell, and to a cell from the table."""
    browser.show(page)

    def press(key: str) -> None:
        browser.switch_to.active_element.send_keys(key)

    press(Keys.TAB)
    assert browser.switch_to.active_element.text == "Skip to the cells"
    press(Keys.ENTER)
    press(Keys.TAB)
    press(Keys.ENTER)
    assert browser.run("return document.querySelector('.cell').open")
    square = browser.find_element(By.CSS_SELECTOR, f"td[data-cell='{CELL}'] a")
    browser.run("document.querySelector('form button').focus()")
    for _ in range(20):
        press(Keys.TAB)
        if browser.switch_to.active_element == square:
            break
    press(Keys.ENTER)
    WebDriverWait(browser, 5).until(lambda _: is_open(browser, CELL))


@pytest.mark.parametrize("may", [["clipboardReadWrite"], ["clipboardReadWrite", "clipboardSanitizedWrite"]])
def test_what_is_copied(browser: Browser, page: Path, judged: Path, may: list[str]) -> None:
    """The reproducer that the button copies is the run's, to the letter, by either way to copy."""
    browser.show(page, f"#{CELL}")
    browser.execute_cdp_cmd("Browser.grantPermissions", {"permissions": may})
    script = browser.find_element(By.CSS_SELECTOR, f"#{CELL} .script")
    script.find_element(By.TAG_NAME, "summary").click()
    button = script.find_element(By.TAG_NAME, "button")
    button.click()
    WebDriverWait(browser, 5).until(lambda _: button.text == "Copied")
    copied = browser.execute_async_script("navigator.clipboard.readText().then(arguments[0])")
    assert copied in {path.read_text() for path in (judged / "run" / "reproducers").iterdir()}


@pytest.mark.parametrize("dark", [False, True])
def test_light_and_dark(browser: Browser, page: Path, dark: bool) -> None:
    """The page follows the system, and every text in it is well to be read: a contrast of 4.5 at least."""
    browser.show(page, f"#{CELL}", dark)
    brightness = browser.run("return getComputedStyle(document.body).backgroundColor")
    assert brightness == ("rgb(20, 23, 27)" if dark else "rgb(255, 255, 255)")
    for colours in ("verdict", "bits"):
        choose(browser, "colour", colours)
        contrast, text = browser.run(CONTRAST)
        assert contrast >= 4.5, text


def test_a_screen_reader_finds_names(browser: Browser, page: Path) -> None:
    """Everything that is to be operated or looked at has a name; verdicts are words, not colours."""
    browser.show(page, f"#{CELL}")
    nodes = browser.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
    named = [
        (node["role"]["value"], node.get("name", {}).get("value", ""))
        for node in nodes
        if not node["ignored"]
        and node["role"]["value"] in ("link", "button", "combobox", "image", "table", "region")
    ]
    assert {role for role, _ in named} >= {"link", "button", "combobox", "image", "table", "region"}
    assert [role for role, name in named if not name] == []
    assert sum(role == "link" and name.strip().startswith("diverges ") for role, name in named) == 4


def test_on_paper(browser: Browser, page: Path) -> None:
    """What fails is printed with its detail, though it is closed on the screen; what is to be clicked is not."""
    browser.show(page, media="print")
    shown = """return [...document.querySelectorAll(arguments[0])]
        .map(one => one.checkVisibility({contentVisibilityAuto: true}))"""
    assert set(browser.run(shown, ".cell.bad .finding")) == {True}
    assert set(browser.run(shown, ".cell:not(.bad) .body")) == {False}
    assert set(browser.run(shown, ".filters, button")) == {False}
