"""Checks a history of client operations against the journal: does the journal have every answer that a client
received, in an order that agrees with the clock (G1 to G4, G10, G11)?

Each check reports its number of subjects; a check without subjects has proved nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any, Final

import asyncpg
import msgspec

from engine.iso8583.identity import late_reversal_key
from engine.limits import AUTHORIZATION_DEADLINE_MS
from ops.audit import EXAMPLES_MAX, Finding
from ops.histories.operations import Operation

LATE_SECONDS: Final = AUTHORIZATION_DEADLINE_MS / 1000 + 0.5
"""Answers that took longer, as their client measured it, were given after the deadline. The half second
beyond it is for the network, and for a client that shares the machine."""
APPROVALS: Final = frozenset({"00", "10", "85"})

REFUSALS: Final = frozenset({"91", "96"})
"""A network treats these answers as failures: an authorization answered only with them must not hold
anything."""

_REFUSED_HOLDS_NOTHING: Final = "an authorization answered only with 91 or 96 holds nothing"

_ROWS: Final = """
    SELECT j.actor_id::text AS card_id, j.seq, j.epoch, j.kind, j.reply,
           j.command::jsonb -> 'wire' ->> 'stan' AS stan,
           j.command::jsonb -> 'wire' ->> 'transmitted_at' AS transmitted_at,
           j.command::jsonb -> 'wire' ->> 'rrn' AS rrn,
           j.command_key, coalesce(t.held_minor, 0) AS held_minor
    FROM journal j LEFT JOIN transactions t ON t.id = j.authorization_id
    WHERE j.actor_id = ANY($1::text[]::uuid[])
      AND j.kind IN ('authorize', 'increment', 'reverse', 'present')
    ORDER BY j.actor_id, j.seq"""


class JournalRow(msgspec.Struct, frozen=True):
    """A journal row about a message."""

    card_id: str
    seq: int
    epoch: int
    kind: str
    identity: tuple[str, str, str]
    response_code: str
    authorization_id: str | None
    command_key: bytes = b""
    held_minor: int = 0
    """The amount that its authorization still holds."""


async def check(connection: asyncpg.Connection[asyncpg.Record], operations: list[Operation]) -> list[Finding]:
    """All checks of a history against the database of ``connection``."""
    cards = sorted({operation.card_id for operation in operations})
    rows = [_row(each) for each in await connection.fetch(_ROWS, cards)]
    return judge(operations, rows)


def judge(operations: list[Operation], rows: list[JournalRow]) -> list[Finding]:
    """All checks, on plain values."""
    executed: dict[tuple[str, tuple[str, str, str]], list[JournalRow]] = defaultdict(list)
    for row in rows:
        executed[_class(row.kind), row.identity].append(row)
    answered = [each for each in operations if each.outcome == "ok"]
    return [
        _finding(
            "every answer to a client is in the journal",
            ((each, any(_same(each, row) for row in executed[_of(each)])) for each in answered),
        ),
        _finding(
            "no message is executed twice", ((name, len(found) <= 1) for name, found in executed.items())
        ),
        _finding(
            "unsent messages have no effect",
            ((each, not executed[_of(each)]) for each in operations if each.outcome == "fail"),
        ),
        _finding("all answers to one message agree", _agreement(answered)),
        _finding(
            "no approval is answered after its deadline",
            (
                (each, (each.ended or 0.0) - each.began <= LATE_SECONDS)
                for each in answered
                if _approved(each)
            ),
        ),
        _finding("journal order respects real time", _real_time(answered, operations, rows)),
        _finding(_REFUSED_HOLDS_NOTHING, _refused(operations, rows)),
        _finding("an approval answered in time is not reversed as late", _standing(answered, rows)),
    ]


def _refused(operations: list[Operation], rows: list[JournalRow]) -> Iterable[tuple[Any, bool]]:
    """Messages that were only answered with refusals: their network treats them as failed."""
    codes: dict[Any, set[str | None]] = defaultdict(set)
    for each in operations:
        if each.kind in ("authorize", "increment") and each.outcome != "fail":
            codes[_of(each)].add(each.response_code)
    reversed_late = _reversed_late(rows)
    approved: dict[Any, list[JournalRow]] = defaultdict(list)
    for row in rows:
        if _class(row.kind) == "authorize" and row.response_code in APPROVALS:
            approved["authorize", row.identity].append(row)
    for name, received in codes.items():
        if received <= REFUSALS:
            yield name, all(not row.held_minor or row.command_key in reversed_late for row in approved[name])


def _standing(answered: list[Operation], rows: list[JournalRow]) -> Iterable[tuple[Any, bool]]:
    reversed_late = _reversed_late(rows)
    undone = {row.identity for row in rows if row.command_key in reversed_late}
    return ((each, each.identity not in undone) for each in answered if _approved(each))


def _reversed_late(rows: list[JournalRow]) -> set[bytes]:
    """Command keys of authorizations that an edge has reversed as late."""
    executed = {row.command_key for row in rows if row.kind == "reverse"}
    return {
        row.command_key
        for row in rows
        if _class(row.kind) == "authorize" and late_reversal_key(row.command_key) in executed
    }


def _approved(operation: Operation) -> bool:
    return operation.kind in ("authorize", "increment") and operation.response_code in APPROVALS


def _agreement(answered: list[Operation]) -> Iterable[tuple[Any, bool]]:
    answers: dict[Any, set[tuple[str | None, str | None]]] = defaultdict(set)
    for each in answered:
        answers[_of(each)].add((each.response_code, each.authorization_id))
    return ((name, len(different) == 1) for name, different in answers.items())


def _real_time(
    answered: list[Operation], operations: list[Operation], rows: list[JournalRow]
) -> Iterable[tuple[Any, bool]]:
    """For each message in the order of its card's ``seq``: no message ended before an earlier one in the
    journal began."""
    began: dict[Any, float] = {}
    ended: dict[Any, float] = {}
    for each in operations:
        began[_of(each)] = min(each.began, began.get(_of(each), each.began))
    for each in answered:
        if each.ended is not None:
            ended[_of(each)] = min(each.ended, ended.get(_of(each), each.ended))
    latest: dict[str, float] = {}
    for row in rows:
        name = (_class(row.kind), row.identity)
        if name not in began:
            continue
        before = latest.get(row.card_id, 0.0)
        yield name, ended.get(name, float("inf")) >= before
        latest[row.card_id] = max(before, began[name])


def _of(operation: Operation) -> tuple[str, tuple[str, str, str]]:
    return _class(operation.kind), operation.identity


def _class(kind: str) -> str:
    """The journal records an increment without an open authorization as an authorization."""
    return "authorize" if kind == "increment" else kind


def _same(operation: Operation, row: JournalRow) -> bool:
    return (operation.response_code, operation.authorization_id) == (row.response_code, row.authorization_id)


def _finding(promise: str, facts: Iterable[tuple[Any, bool]]) -> Finding:
    subjects, broken = 0, []
    for subject, holds in facts:
        subjects += 1
        if not holds:
            broken.append(_name(subject))
    return Finding(promise, subjects, len(broken), tuple(broken[:EXAMPLES_MAX]))


def _name(subject: Any) -> str:
    if isinstance(subject, Operation):
        return f"{subject.kind} {'/'.join(subject.identity)} ({subject.response_code})"
    kind, identity = subject
    return f"{kind} {'/'.join(identity)}"


def _row(record: asyncpg.Record) -> JournalRow:
    reply = msgspec.json.decode(record["reply"])
    return JournalRow(
        record["card_id"],
        record["seq"],
        record["epoch"],
        record["kind"],
        (record["stan"], record["transmitted_at"], record["rrn"]),
        reply["response_code"],
        reply["authorization_id"] or None,
        record["command_key"],
        record["held_minor"],
    )
