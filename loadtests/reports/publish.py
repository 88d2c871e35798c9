"""Writes reports: three files in a folder, and optionally a section of a document between two marks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
FOLDER: Final = ROOT / "var/bench"


class NoMarksError(Exception):
    """The document has no place for the report. The message is one line."""


def write(folder: Path, name: str, text: str, json: bytes, html: str) -> list[Path]:
    """Write ``name`` as Markdown, JSON and a page; returns the files."""
    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / f"{name}.{suffix}" for suffix in ("md", "json", "html")]
    for file, content in zip(files, (text.encode(), json, html.encode()), strict=True):
        file.write_bytes(content.rstrip() + b"\n")
    return files


def insert(document: Path, name: str, text: str) -> None:
    """Put ``text`` between ``<!-- name: begin -->`` and ``<!-- name: end -->`` of ``document``. Raises
    NoMarksError."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, found, rest = document.read_text("utf-8").partition(begin)
    _, also_found, after = rest.partition(end)
    if not (found and also_found):
        raise NoMarksError(f"{document} has no place for a report: {begin} … {end}")
    document.write_text(f"{before}{begin}\n\n{text.strip()}\n\n{end}{after}", "utf-8")


def check_marks(document: Path, names: Iterable[str]) -> None:
    """Raises NoMarksError unless ``document`` has the marks of at least one of ``names``: before a long run,
    not after it."""
    try:
        text = document.read_text("utf-8")
    except OSError as failure:
        raise NoMarksError(f"{document} cannot be read: {failure.strerror}") from None
    names = list(names)
    if not any(_has_marks(text, name) for name in names):
        wanted = " or ".join(f"<!-- {name}: begin --> … <!-- {name}: end -->" for name in names)
        raise NoMarksError(f"{document} has no place for a report: {wanted}")


def insert_found(document: Path, sections: Mapping[str, str]) -> None:
    """Insert each section whose marks are in ``document``. An empty one leaves the previous text, because
    the run has not measured it."""
    text = document.read_text("utf-8")
    for name, section in sections.items():
        if section and _has_marks(text, name):
            insert(document, name, section)


def _has_marks(text: str, name: str) -> bool:
    _, begun, rest = text.partition(f"<!-- {name}: begin -->")
    return bool(begun) and f"<!-- {name}: end -->" in rest
