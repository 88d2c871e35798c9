"""What clients sent and received, in Jepsen's terms: ``ok`` happened, ``fail`` did not happen, ``info`` may
have happened.

Instants are seconds of one process's monotonic clock, so "A ended before B began" is reliable.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

import msgspec

Outcome = Literal["ok", "fail", "info"]

_encode = msgspec.json.Encoder().encode


class Operation(msgspec.Struct, kw_only=True):
    """One message to the edge and its answer. A repeat is an operation of its own with the same identity."""

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
        """The elements that identify the message."""
        return self.stan, self.transmitted_at, self.rrn


class History:
    """All operations, in the order in which they began."""

    def __init__(self, operations: list[Operation] | None = None) -> None:
        self.operations = operations or []

    def begin(self, operation: Operation) -> Operation:
        """Record that ``operation`` begins now."""
        operation.began = time.monotonic()
        self.operations.append(operation)
        return operation

    def end(self, operation: Operation, outcome: Outcome) -> None:
        """Record that ``operation`` ends now. An operation without an end is ``info``."""
        operation.ended, operation.outcome = time.monotonic(), outcome

    def since(self, began: float) -> Iterator[Operation]:
        """Operations that began at or after ``began``."""
        return (operation for operation in self.operations if operation.began >= began)

    def unanswered_before(self, began: float, operations: Iterable[Operation]) -> list[Operation]:
        """Those of ``operations`` whose message had no answer before ``began``. The others repeat a message
        that an earlier fault met. A message in flight at ``began`` is kept."""
        operations = list(operations)
        traces = {each.rrn for each in operations}
        repeated = {
            each.identity
            for each in self.operations
            if each.rrn in traces and each.ended is not None and each.ended < began
        }
        return [each for each in operations if each.identity not in repeated]

    def save(self, path: Path) -> None:
        """Write one JSON line for each operation."""
        with path.open("wb") as file:
            for operation in self.operations:
                file.write(_encode(operation) + b"\n")
