"""Blocks of code are what they say that they are."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Final

import pytest
import yaml

from harness.config import Config
from tests.docs.pages import Block, Page, written_pages
from tests.docs.unfollowed import FRAGMENTS, SHOWN

BLOCKS: Final = tuple(block for name in written_pages() for block in Page(name).blocks)


@pytest.mark.parametrize("name", written_pages())
def test_every_block_says_what_it_is(name: str) -> None:
    """In a fence, by a language that the tests know; one that is indented holds commands."""
    assert list(Page(name).problems()) == []


@pytest.mark.parametrize("block", [block for block in BLOCKS if block.language == "python"], ids=str)
def test_python_compiles(block: Block) -> None:
    """Whether or not it is run as well."""
    compile(block.text, str(block), "exec")


@pytest.mark.parametrize("block", [block for block in BLOCKS if block.language == "yaml"], ids=str)
def test_yaml_is_read(block: Block) -> None:
    """By the rules of YAML; tests/ci holds workflows against their schema."""
    assert yaml.safe_load(block.text)


@pytest.mark.parametrize("block", [block for block in BLOCKS if block.language == "toml"], ids=str)
def test_toml_is_read(block: Block, tmp_path: Path) -> None:
    """As a configuration of lossgate, where it is none of another tool."""
    if "project" in tomllib.loads(block.text):
        return
    file = tmp_path / "lossgate.toml"
    file.write_text(block.text)
    assert Config.load(file) != Config(file)


def test_text_is_told() -> None:
    """What is shown and not run is there for a reason, and each reason is for a page that has some."""
    assert {block.page for block in BLOCKS if block.language == "text"} == set(SHOWN)
    assert {block.page for block in BLOCKS if block.language == "python" and not block.file} >= set(FRAGMENTS)
