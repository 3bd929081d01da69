"""The pages of the documentation as blocks, links and headings, by the rules of CommonMark."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import dropwhile, takewhile
from pathlib import Path
from typing import Final

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT: Final = Path(__file__).parents[2]

LANGUAGES: Final = ("console", "sh", "python", "toml", "yaml", "diff", "text")
"""What a fenced block may say that it is. `text` is shown and not run: folders, and what another tool prints."""

_PARSER: Final = MarkdownIt("commonmark").enable("table")
_COMMENT: Final = re.compile(r"\s+#\s.*")
_ASIDE: Final = re.compile(r"\s2>&1|(?<=/)<\w+>")
_ASSIGNMENT: Final = re.compile(r"[A-Z_]+=")
_PROMPT: Final = "$ "
_COMMAND: Final = re.compile(r"(?:[A-Z_]+=\S+ )*(?:\S*/)?(?:lossgate|python|make|pip|pipx|\w+\.sh)(?: .*)?")


class MisshapenError(ValueError):
    """A block is not what it says that it is."""


CELL: Final = (
    "--loss-type",
    "grpo",
    "--level",
    "token",
    "--dtype",
    "float32",
    "--beta",
    "0",
    "--examples",
    "1",
    "--quiet",
)
"""The options of one cell that is judged in a moment."""


@dataclass(frozen=True)
class Block:
    """A block of code: what language it says it is in, the file that it names behind it, or "", and its text.

    A block that is indented has no language; it holds command lines.
    """

    page: str
    line: int
    language: str
    file: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


@dataclass(frozen=True)
class Command:
    """A command line of a page; `shown` is what the page says that it prints, None where it says nothing."""

    page: str
    line: int
    text: str
    shown: str | None = None

    @property
    def bare(self) -> str:
        """The line without a comment."""
        return _COMMENT.sub("", self.text)

    @property
    def words(self) -> list[str]:
        """Program and arguments, without what is set before them and what the shell does behind them."""
        lexer = shlex.shlex(_ASIDE.sub("", self.bare), posix=True, punctuation_chars=";|&<>")
        lexer.whitespace_split, lexer.commenters = True, ""
        words = list(takewhile(lambda word: word[0] not in ";|&>", lexer))
        return list(dropwhile(_ASSIGNMENT.match, words))

    def __str__(self) -> str:
        return f"{self.page}:{self.line} {self.text}"


class Page:
    """One page, by its path below the root of the repository."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.path = ROOT / name
        self.text = self.path.read_text(encoding="utf-8")

    @cached_property
    def _tokens(self) -> list[Token]:
        return _PARSER.parse(self.text)

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        """The blocks of code, in their order."""
        found = []
        for token in self._tokens:
            if token.type not in ("fence", "code_block"):
                continue
            language, _, file = token.info.strip().partition(" ")
            found.append(Block(self.name, token.map[0] + 1 if token.map else 0, language, file, token.content))
        return tuple(found)

    @cached_property
    def steps(self) -> tuple[Block | Command, ...]:
        """What a reader does who follows the page: command lines, and blocks that are code.

        Raises `MisshapenError`.
        """
        return tuple(step for block in self.blocks for step in steps_of(block))

    @property
    def commands(self) -> tuple[Command, ...]:
        """The command lines alone."""
        return tuple(step for step in self.steps if isinstance(step, Command))

    def problems(self) -> Iterator[str]:
        """What is wrong with blocks, a sentence for each."""
        for block in self.blocks:
            if block.language and block.language not in LANGUAGES:
                yield f"{block}: {block.language!r} is none of {', '.join(LANGUAGES)}"
            try:
                list(steps_of(block))
            except MisshapenError as problem:
                yield str(problem)

    @cached_property
    def links(self) -> tuple[str, ...]:
        """What links and images lead to."""
        inline = [child for token in self._tokens for child in token.children or ()]
        targets = [child.attrs.get("href", child.attrs.get("src")) for child in inline]
        return tuple(str(target) for target in targets if target)

    @cached_property
    def anchors(self) -> frozenset[str]:
        """The names that GitHub gives to the headings."""
        found: list[str] = []
        for opening, inline in zip(self._tokens, self._tokens[1:], strict=False):
            if opening.type == "heading_open":
                parts = [child.content for child in inline.children or () if child.type in ("text", "code_inline")]
                name = re.sub(r"[^\w\- ]", "", "".join(parts).strip().lower()).replace(" ", "-")
                again = found.count(name)
                found.append(f"{name}-{again}" if again else name)
        return frozenset(found)

    def table(self, *heads: str) -> list[list[str]]:
        """The rows of the one table whose first columns have these heads, cell by cell."""
        begins = f"| {' | '.join(heads)} |"
        found = [part for part in self.text.split("\n\n") if part.lstrip().startswith(begins)]
        assert len(found) == 1, f"{self.name} has {len(found)} tables that begin with {begins}"
        rows = found[0].strip().splitlines()[2:]
        return [[cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]] for row in rows]

    def between(self, start: str, end: str) -> str:
        """The text between two comments."""
        return self.text.partition(start)[2].partition("-->")[2].partition(end)[0].strip()


def steps_of(block: Block) -> Iterator[Block | Command]:
    """The command lines of a block, or the block itself. Raises `MisshapenError`."""
    match block.language:
        case "console":
            yield from _console(block)
        case "sh" | "":
            yield from _lines(block)
        case _:
            yield block


def _console(block: Block) -> Iterator[Command]:
    lines = block.text.splitlines()
    starts = [number for number, line in enumerate(lines) if line.startswith(_PROMPT)]
    if starts[:1] != [0]:
        raise MisshapenError(f"{block}: a console block begins with a command, after '$ '")
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        shown = "\n".join(lines[start + 1 : end])
        yield Command(block.page, block.line + start + 1, lines[start].removeprefix(_PROMPT), shown or None)


def _lines(block: Block) -> Iterator[Command]:
    whole = ""
    for number, line in enumerate(block.text.splitlines()):
        whole += line.strip()
        if whole.endswith("\\"):
            whole = whole[:-1]
            continue
        if whole:
            if not _COMMAND.fullmatch(whole):
                raise MisshapenError(f"{block}: {whole!r} is no command; say in a fence what the block is")
            yield Command(block.page, block.line + number + (block.language != ""), whole)
        whole = ""


def all_pages() -> tuple[str, ...]:
    """Every page of the repository that is written, README first."""
    found = [
        path.relative_to(ROOT).as_posix()
        for folder in ("docs", "examples", "benchmarks", "reports")
        for path in sorted((ROOT / folder).rglob("*.md"))
    ]
    return ("README.md", "CHANGELOG.md", *found)


def followed_pages() -> tuple[str, ...]:
    """The pages with blocks for a reader to type, in which `test_blocks` finds nothing wrong."""
    return tuple(name for name in written_pages() if not list(Page(name).problems()))


def written_pages() -> tuple[str, ...]:
    """The pages that are not a report."""
    return tuple(name for name in all_pages() if not name.startswith(("CHANGELOG", "reports/")))
