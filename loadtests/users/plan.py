"""The input of a load test: an installation and its cards, in a file that only its owner can read."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from loadtests.generators.workload import Card


class LoadPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The installation and its cards. It holds card numbers and a secret: never print it."""

    base_url: str
    client_id: str
    client_secret: str
    iso8583_host: str = ""
    """Empty = no users over ISO 8583."""
    iso8583_port: int = 0
    card_ids: list[str] = []
    """Cards of the users over REST."""
    cards: list[Card] = []
    """Cards of the users over ISO 8583."""

    def __repr__(self) -> str:
        return f"LoadPlan({len(self.card_ids)} cards at {self.base_url})"


def write_plan(plan: LoadPlan, path: Path) -> None:
    """Write it, readable by this user alone."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(msgspec.json.encode(plan))


def read_plan(path: Path) -> LoadPlan:
    """Read a plan that ``write_plan`` has written."""
    return msgspec.json.decode(path.read_bytes(), type=LoadPlan)
