"""Reads the text of a profile file. Errors name file, line and member; the line is that of the member, or of
the closest section around it."""

from __future__ import annotations

import re
import tomllib
from typing import Final

import msgspec

from engine.iso8583.profile import Profile
from engine.iso8583.profiles.build import DescriptionError, Path, build
from engine.iso8583.profiles.description import Description, merged
from engine.iso8583.profiles.shipped import DESCRIPTIONS

_SECTION: Final = re.compile(r"\s*\[\s*([^\[\]]+?)\s*\]\s*(?:#.*)?")
_MEMBER: Final = re.compile(r"\s*([\w.\-\"' ]+?)\s*=")
_TOML_LINE: Final = re.compile(r" \(at line (\d+), column \d+\)")
_INVALID_PATH: Final = re.compile(r" - at `(?:key in )?\$(.*)`")
_STEP: Final = re.compile(r"\.(\w+)|\[(?:\.\.\.|\d+)\]")


class ProfileError(ValueError):
    """A profile file is wrong. The text is one line: file, line, member, problem."""

    def __init__(self, file: str, line: int, member: str, problem: str) -> None:
        place = f"{file}:{line}: " + (f"{member}: " if member else "")
        super().__init__(place + problem)
        self.file = file
        self.line = line
        self.member = member
        self.problem = problem


def parse_profile(text: str, file: str) -> Profile:
    """The profile in ``text``, the content of ``file``. Raises ``ProfileError``."""
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _toml_error(error, text, file) from None
    lines = _lines(text)
    try:
        description = msgspec.convert(content, Description)
    except msgspec.ValidationError as error:
        raise _invalid(error, lines, file) from None
    try:
        return build(_with_base(description))
    except DescriptionError as error:
        raise _error(file, lines, error.path, error.problem) from None


def _with_base(description: Description) -> Description:
    if description.name in DESCRIPTIONS:
        raise DescriptionError(("name",), "is the name of a shipped profile")
    base = DESCRIPTIONS.get(description.based_on or "iso87-ascii")
    if base is None:
        raise DescriptionError(("based_on",), f"is not one of {', '.join(DESCRIPTIONS)}")
    if description.version is not None and description.version != (base.version or "1987"):
        raise DescriptionError(("version",), "is not that of the profile that it is based on")
    return merged(base, description)


def _lines(text: str) -> dict[Path, int]:
    """The line of each section and of each member that begins a line."""
    lines: dict[Path, int] = {}
    section: Path = ()
    for number, line in enumerate(text.splitlines(), 1):
        if opened := _SECTION.fullmatch(line):
            section = _keys(opened[1])
            lines.setdefault(section, number)
        elif member := _MEMBER.match(line):
            lines.setdefault((*section, *_keys(member[1])), number)
    return lines


def _keys(dotted: str) -> Path:
    return tuple(key.strip().strip("\"'") for key in dotted.split("."))


def _error(file: str, lines: dict[Path, int], path: Path, problem: str) -> ProfileError:
    known = path
    while known and known not in lines:
        known = known[:-1]
    return ProfileError(file, lines.get(known, 1), ".".join(path), problem)


def _invalid(error: msgspec.ValidationError, lines: dict[Path, int], file: str) -> ProfileError:
    """The path in the error has ``[...]`` for keys of tables, so the line is found by the known members."""
    text = str(error)
    found = _INVALID_PATH.search(text)
    problem = text if found is None else text[: found.start()]
    path = tuple(step for step in _STEP.findall(found[1]) if step) if found else ()
    return _error(file, lines, path, problem)


def _toml_error(error: tomllib.TOMLDecodeError, text: str, file: str) -> ProfileError:
    problem = str(error)
    found = _TOML_LINE.search(problem)
    if found is None:  # at the end of the document
        return ProfileError(file, len(text.splitlines()) or 1, "", problem)
    return ProfileError(file, int(found[1]), "", problem.replace(found[0], ""))
