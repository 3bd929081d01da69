"""Links lead somewhere."""

from __future__ import annotations

import pytest

from tests.docs.pages import ROOT, Page, all_pages


@pytest.mark.parametrize("name", all_pages())
def test_links_lead_somewhere(name: str) -> None:
    """Every relative link of a page is a file of the repository, and what follows its # is a heading there."""
    page = Page(name)
    assert [link for link in page.links if not _leads_somewhere(link, page)] == []


def _leads_somewhere(link: str, page: Page) -> bool:
    if "://" in link:
        return True
    file, _, anchor = link.partition("#")
    target = (page.path.parent / file).resolve() if file else page.path
    return target.exists() and (not anchor or anchor in Page(target.relative_to(ROOT).as_posix()).anchors)


def test_every_page_is_linked() -> None:
    """A reader who starts at the README comes to every page of docs."""
    reached: set[str] = set()
    ahead = ["README.md"]
    while ahead:
        page = Page(ahead.pop())
        reached.add(page.name)
        files = {(page.path.parent / link.partition("#")[0]).resolve() for link in page.links if "://" not in link}
        pages = {file.relative_to(ROOT).as_posix() for file in files if file.suffix == ".md" and file.exists()}
        ahead += pages - reached
    assert {name for name in all_pages() if name.startswith("docs/")} <= reached
