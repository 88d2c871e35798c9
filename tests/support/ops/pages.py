"""The project's Markdown pages: their fences and the text between backquotes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[3]
PACKAGES: Final = ("engine", "actors", "api", "ops", "loadtests", "tests", ".ci")
_MARK: Final = re.compile(r"^ *(`{3,}|~{3,}) *(\w*)")
_SPAN: Final = re.compile(r"`([^`]+)`")


@dataclass(frozen=True)
class Fence:
    """The text between two fence marks. ``language`` is empty if none is named."""

    page: str
    section: str
    language: str
    text: str


def pages() -> list[str]:
    """Every Markdown file, by its path in the project."""
    found = [*ROOT.glob("*.md"), *(path for package in PACKAGES for path in (ROOT / package).rglob("*.md"))]
    return sorted(path.relative_to(ROOT).as_posix() for path in found)


def fences(page: str) -> list[Fence]:
    """The fences of a page, in order."""
    return [part for part in _parts(page) if isinstance(part, Fence)]


def spans(page: str) -> list[str]:
    """Text between backquotes outside fences; line breaks inside become spaces."""
    prose = "\n".join(part for part in _parts(page) if isinstance(part, str))
    return [" ".join(span.split()) for span in _SPAN.findall(prose)]


def fence(page: str, section: str, language: str) -> str:
    """The text of the only fence of that language in a section."""
    (text,) = (each.text for each in fences(page) if (each.section, each.language) == (section, language))
    return text


def _parts(page: str) -> Iterator[Fence | str]:
    """Prose lines and whole fences. Fails on a fence that is not closed."""
    section, lines = "", iter((ROOT / page).read_text("utf-8").splitlines())
    for line in lines:
        if begin := _MARK.match(line):
            mark, language = begin.groups()
            inside: list[str] = []
            while not (line := next(lines)).strip().startswith(mark):
                inside.append(line)
            yield Fence(page, section, language, "".join(f"{each}\n" for each in inside))
        else:
            if title := re.match(r"#+ (.+)", line):
                section = title[1]
            yield line
