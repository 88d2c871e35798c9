"""What clients asked and heard, in Jepsen's terms: ``ok`` happened, ``fail`` did not, ``info`` may have.

Instants are seconds of one process's monotonic clock, so "A had ended before B began" means what it says.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import msgspec

Outcome = Literal["ok", "fail", "info"]

_encode = msgspec.json.Encoder().encode


class Operation(msgspec.Struct, kw_only=True):
    """One message to the edge, and its answer; a repeat is an operation of its own with the same identity."""

    card_id: str
    kind: Literal["authorize", "increment", "reverse", "present"]
    stan: str
    transmitted_at: str
    """DE7."""
    rrn: str
    amount_minor: int
    began: float
    ended: float | None = None
    outcome: Outcome = "info"
    response_code: str | None = None
    authorization_id: str | None = None
    approved_minor: int | None = None

    @property
    def identity(self) -> tuple[str, str, str]:
        """What names the message."""
        return self.stan, self.transmitted_at, self.rrn


class History:
    """Everything that was asked, in the order in which it began."""

    def __init__(self, operations: list[Operation] | None = None) -> None:
        self.operations = operations or []

    def invoke(self, operation: Operation) -> Operation:
        """``operation`` begins now."""
        operation.began = time.monotonic()
        self.operations.append(operation)
        return operation

    def end(self, operation: Operation, outcome: Outcome) -> None:
        """``operation`` ends now; what has no end is ``info``."""
        operation.ended, operation.outcome = time.monotonic(), outcome

    def since(self, began: float) -> Iterator[Operation]:
        """What began at or after an instant."""
        return (operation for operation in self.operations if operation.began >= began)

    def save(self, path: Path) -> None:
        """One JSON line for each operation."""
        with path.open("wb") as file:
            for operation in self.operations:
                file.write(_encode(operation) + b"\n")
