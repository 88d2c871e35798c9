"""The lines of CLUSTER.md that the drills type, read out of the page itself: what an operator reads is what
is tried."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PAGE: Final = Path(__file__).parents[2] / "docs" / "CLUSTER.md"
FIRST: Final = "FIRST:6379"
"""How the page writes the head's address."""
SETTING_UP: Final = "Setting one up"
COMING_AND_GOING: Final = "Nodes that come and go"
_FENCE: Final = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_OPEN: Final = re.compile(r"(\w+)=(?:https://)?\.\.\.(?=\s|$)")


@dataclass(frozen=True)
class Handbook:
    """The page's commands in the order of their comments."""

    everywhere: tuple[str, ...]
    """The variables of every machine."""
    head: str
    joining: str
    once: tuple[str, ...]
    """The variables of the supervisor, and what starts it last."""
    leaving: tuple[str, ...]
    """What is typed on a node before its machine is stopped."""


def handbook() -> Handbook:
    """What the page says now. ValueError when it is not in the form that is known here."""
    text = PAGE.read_text("utf-8")
    everywhere, (head,), (joining,), once = _parts(_fence(text, SETTING_UP))
    return Handbook(everywhere, head, joining, once, _commands(_fence(text, COMING_AND_GOING)))


def filled(line: str, values: Mapping[str, str], address: str) -> str:
    """``line`` with ``values`` where the page has an ellipsis, and ``address`` for the head's. KeyError when
    a value is missing."""
    line = _OPEN.sub(lambda match: f"{match[1]}={values[match[1]]}", line)
    return line.replace(FIRST, address)


def _fence(text: str, section: str) -> str:
    (fence,) = _FENCE.findall(text.partition(f"\n## {section}\n")[2].partition("\n## ")[0])
    return str(fence)


def _parts(fence: str) -> list[tuple[str, ...]]:
    """The commands below each comment that has a line of its own."""
    return [_commands(part) for part in re.split(r"^# .*\n", fence, flags=re.MULTILINE)[1:]]


def _commands(text: str) -> tuple[str, ...]:
    lines = (re.sub(r"\s+#.*", "", line).strip() for line in text.splitlines())
    return tuple(line for line in lines if line)
