"""The function and the payload of a back-test's task. API servers start tasks, and do not load what a task
does."""

from __future__ import annotations

from typing import Final

import msgspec

FUNCTION: Final = "actors.backtests.work:work"


class Work(msgspec.Struct, frozen=True):
    """The payload of a task."""

    backtest_id: str


def payload_of(backtest_id: str) -> bytes:
    """The payload of a task on a back-test."""
    return msgspec.json.encode(Work(backtest_id))


def backtest_of(payload: bytes) -> str:
    """The id of the back-test of a payload."""
    return msgspec.json.decode(payload, type=Work).backtest_id
