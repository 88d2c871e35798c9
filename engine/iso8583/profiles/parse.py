"""Reads the text of a profile file. Errors name file, line and member; the line is that of the member, or of
the closest section around it."""

from __future__ import annotations

import re
import tomllib
from typing import Any, Final, TypeVar

import msgspec

from engine.iso8583.private_data import Place, TlvFormat
from engine.iso8583.profile import Profile
from engine.iso8583.profiles.build import DescriptionError, Path, build
from engine.iso8583.profiles.description import Description, Element, merged
from engine.iso8583.profiles.shipped import DESCRIPTIONS

_SECTION: Final = re.compile(r"\s*\[\s*([^\[\]]+?)\s*\]\s*(?:#.*)?")
_MEMBER: Final = re.compile(r"\s*([\w.\-\"' ]+?)\s*=")
_TOML_LINE: Final = re.compile(r" \(at line (\d+), column \d+\)")
_INVALID_PATH: Final = re.compile(r" - at (?:`key` in )?`\$(.*)`")
_STEP: Final = re.compile(r"\.(\w+)")
_TABLES: Final[dict[str, type[msgspec.Struct]]] = {"elements": Element, "private": Place, "tlv": TlvFormat}
"""Sections with an entry for each element or fact."""

Converted = TypeVar("Converted")


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
        for section, members in _TABLES.items():
            _check_table(section, content.get(section), members)
        return build(_with_base(_converted(content, Description, ())))
    except DescriptionError as error:
        raise _error(file, lines, error.path, error.problem) from None


def _check_table(section: str, table: Any, members: type[msgspec.Struct]) -> None:
    """Check each entry on its own, because errors of a whole table do not name the entry."""
    if isinstance(table, dict):
        for key, entry in table.items():
            _converted(entry, members, (section, key))


def _converted(content: Any, into: type[Converted], path: Path) -> Converted:
    try:
        return msgspec.convert(content, into)
    except msgspec.ValidationError as error:
        text = str(error)
        found = _INVALID_PATH.search(text)
        steps = tuple(_STEP.findall(found[1])) if found else ()
        raise DescriptionError((*path, *steps), text if found is None else text[: found.start()]) from None


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
            for depth in range(1, len(section) + 1):
                lines.setdefault(section[:depth], number)
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


def _toml_error(error: tomllib.TOMLDecodeError, text: str, file: str) -> ProfileError:
    problem = str(error)
    found = _TOML_LINE.search(problem)
    if found is None:  # at the end of the document
        return ProfileError(file, len(text.splitlines()) or 1, "", problem)
    return ProfileError(file, int(found[1]), "", problem.replace(found[0], ""))
