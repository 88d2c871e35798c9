"""Reads the command lines of CLUSTER.md, so that the cluster drills run exactly the documented commands."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PAGE: Final = Path(__file__).parents[2] / "docs" / "CLUSTER.md"
FIRST: Final = "FIRST:6379"
"""The page's placeholder for the head's address."""
SETTING_UP: Final = "Setting one up"
COMING_AND_GOING: Final = "Nodes that come and go"
_FENCE: Final = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_OPEN: Final = re.compile(r"(\w+)=(?:https://)?\.\.\.(?=\s|$)")


@dataclass(frozen=True)
class Handbook:
    """The page's commands, in the order of its comments."""

    everywhere: tuple[str, ...]
    """Variables that every machine exports."""
    head_variable: str
    """The variable that only the head's machine exports."""
    head: str
    joining: str
    once: tuple[str, ...]
    """The supervisor's variables, and, last, the command that starts it."""
    leaving: tuple[str, ...]
    """Commands to run on a node before its machine is stopped."""


def handbook() -> Handbook:
    """The commands of the page. Raises ValueError when the page has an unexpected form."""
    text = PAGE.read_text("utf-8")
    everywhere, (head_variable, head), (joining,), once = _parts(_fence(text, SETTING_UP))
    return Handbook(everywhere, head_variable, head, joining, once, _commands(_fence(text, COMING_AND_GOING)))


def filled(line: str, values: Mapping[str, str], address: str) -> str:
    """``line`` with ``values`` in place of the ellipses, and ``address`` as the head's address. Raises
    KeyError when a value is missing."""
    line = _OPEN.sub(lambda match: f"{match[1]}={values[match[1]]}", line)
    return line.replace(FIRST, address)


def _fence(text: str, section: str) -> str:
    (fence,) = _FENCE.findall(text.partition(f"\n## {section}\n")[2].partition("\n## ")[0])
    return str(fence)


def _parts(fence: str) -> list[tuple[str, ...]]:
    """The commands below each comment line."""
    return [_commands(part) for part in re.split(r"^# .*\n", fence, flags=re.MULTILINE)[1:]]


def _commands(text: str) -> tuple[str, ...]:
    lines = (re.sub(r"\s+#.*", "", line).strip() for line in text.splitlines())
    return tuple(line for line in lines if line)
