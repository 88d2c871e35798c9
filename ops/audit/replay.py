"""Replays each card's journal: the same commands through the same pure functions must give the same answers
and the same state of the card, its account and its transactions.

Cards that share an account, as a card and its replacement do, are replayed together. Their commands are in
the order of epochs and instants; ``engine.backtests.order`` orders those of one millisecond.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import asyncpg
import msgspec

from engine.authorization.executed import Executed
from engine.backtests.entry import Entry
from engine.backtests.order import CommandQueues
from engine.cards.account import Account
from engine.cards.authorization import Authorization
from engine.commands import CardCommand, CreateCard, ProgrammeCommand
from engine.decision.recorded import decode_inputs
from engine.execution.execute import execute
from engine.instant import to_ms
from engine.replay.earlier import by_earlier_rules
from engine.replay.programmes import ProgrammeVersions
from engine.replay.state import ReplayedState
from engine.replies import Done, Reply, WireAnswer
from engine.rules.evaluate import RecordedPast

FETCH: Final = 1_000

_PROGRAMMES: Final = """
    SELECT j.actor_id::text, j.command, j.recorded_at FROM journal j
    WHERE j.actor_id IN (SELECT id FROM programmes) ORDER BY j.actor_id, j.seq"""
_COLUMNS: Final = """
    j.actor_id::text, j.seq, j.epoch, j.recorded_at, j.kind, j.command_key, j.command, j.inputs, j.decision,
    j.reply"""
_SHARES: Final = "EXISTS (SELECT FROM cards o WHERE o.account_id = c.account_id AND o.id <> c.id)"
_ALONE: Final = f"""
    SELECT j.actor_id::text AS unit, {_COLUMNS}
    FROM journal j JOIN cards c ON c.id = j.actor_id WHERE NOT {_SHARES}
    ORDER BY j.actor_id, j.seq"""
_SHARED: Final = f"""
    SELECT c.account_id::text AS unit, {_COLUMNS}
    FROM journal j JOIN cards c ON c.id = j.actor_id WHERE {_SHARES}
    ORDER BY c.account_id, j.epoch, j.recorded_at, j.actor_id, j.seq"""
_STATE: Final = """
    SELECT u.day, u.day_count, u.day_amount_minor, u.seq, a.posted_minor, a.held_minor,
           (SELECT coalesce(jsonb_object_agg(t.id, jsonb_build_array(
               t.approved_minor, t.cleared_minor, t.reversed_minor, t.held_minor)), '{}')
            FROM transactions t WHERE t.card_id = u.card_id) AS transactions
    FROM card_usage u JOIN cards c ON c.id = u.card_id LEFT JOIN accounts a ON a.id = c.account_id
    WHERE u.card_id = $1::text::uuid"""


_command = msgspec.json.Decoder(CardCommand).decode
_programme_command = msgspec.json.Decoder(ProgrammeCommand).decode
_reply = msgspec.json.Decoder(Reply).decode
_encode = msgspec.json.Encoder().encode


@dataclass
class ReplayedUnit:
    """The cards of one account, or a card alone, in memory as their owner had them."""

    id: str
    """The id of the account, or of the card."""
    state: ReplayedState = field(default_factory=ReplayedState)
    commands: int = 0
    differs_at: str | None = None
    """The first command whose replayed answer differs from the stored one: its card and its ``seq``."""
    earlier_rules: bool = False
    """Whether a command ran under earlier rules, so that the present rules give other figures. Its decisions
    are still recomputed under the rules that their inputs name (``ops.audit``)."""

    @property
    def account_version(self) -> int:
        """The version of the account after the last command."""
        return 0 if self.state.account is None else self.state.account.version


async def replay(connection: asyncpg.Connection[asyncpg.Record]) -> AsyncIterator[ReplayedUnit]:
    """Replay every card, account by account; ``connection`` is inside a transaction."""
    programmes = ProgrammeVersions()
    async for row in connection.cursor(_PROGRAMMES, prefetch=FETCH):
        programmes.add(row["actor_id"], _programme_command(row["command"]), to_ms(row["recorded_at"]))
    unit: ReplayedUnit | None = None
    for statement in (_ALONE, _SHARED):
        async for rows in _grouped(connection.cursor(statement, prefetch=FETCH), _instant):
            if unit is None or unit.id != rows[0]["unit"]:
                if unit is not None:
                    yield unit
                unit = ReplayedUnit(rows[0]["unit"])
            cards = {row["actor_id"] for row in rows}
            for row in _in_order(rows, unit) if len(cards) > 1 else rows:
                if unit.differs_at is None:
                    _replay_command(unit, row, programmes, alone=len(cards) == 1)
    if unit is not None:
        yield unit


def _instant(row: Any) -> tuple[str, int, Any]:
    """Commands with the same instant of one account are ordered by ``_in_order``."""
    return row["unit"], row["epoch"], row["recorded_at"]


async def _grouped(rows: AsyncIterable[Any], key: Callable[[Any], object]) -> AsyncIterator[list[Any]]:
    """Consecutive rows with the same key."""
    group: list[Any] = []
    async for row in rows:
        if group and key(group[0]) != key(row):
            yield group
            group = []
        group.append(row)
    if group:
        yield group


def _in_order(rows: list[Any], unit: ReplayedUnit) -> Iterator[Any]:
    """Commands of several cards in one millisecond. Replay each before you take the next one."""
    of_card: dict[str, dict[int, Any]] = {}
    for row in rows:
        of_card.setdefault(row["actor_id"], {})[row["seq"]] = row
    queues = CommandQueues(of_card)
    for card_id, commands in of_card.items():
        queues.add(card_id, [_entry(row) for row in commands.values()], complete=True)
    for entry in queues.ready(unit):
        yield of_card[entry.card_id][entry.seq]


def _entry(row: Any) -> Entry:
    return Entry(
        row["actor_id"],
        row["seq"],
        to_ms(row["recorded_at"]),
        row["kind"],
        row["command"],
        row["inputs"],
        row["decision"],
    )


async def rows_agree(
    connection: asyncpg.Connection[asyncpg.Record], unit: ReplayedUnit, card_id: str
) -> bool:
    """Whether the rows of a card, its account and its transactions agree with the replayed state."""
    row = await connection.fetchrow(_STATE, card_id)
    replayed = unit.state.cards[card_id]
    card = replayed.card
    account = None if card.account_id is None else unit.state.account
    if row is None:
        return False
    if unit.earlier_rules:
        return bool(row["seq"] == card.seq)
    counters = (row["day"], row["day_count"], row["day_amount_minor"], row["seq"])
    balance = (row["posted_minor"], row["held_minor"])
    stored = {id_: tuple(figures) for id_, figures in msgspec.json.decode(row["transactions"]).items()}
    return (
        counters == (card.day, card.day_count, card.day_amount_minor, card.seq)
        and balance == ((account.posted_minor, account.held_minor) if account else (None, None))
        and stored == dict(_figures(replayed.known, account))
    )


def _figures(known: Iterable[Authorization], account: Account | None) -> dict[str, tuple[int, ...]]:
    return {
        each.id: (each.approved_minor, each.cleared_minor, each.reversed_minor, _held(each, account))
        for each in known
    }


def _held(authorization: Authorization, account: Account | None) -> int:
    hold = account.holds.get(authorization.hold_id or "") if account else None
    return hold.amount_minor if hold else 0


def _replay_command(unit: ReplayedUnit, row: Any, programmes: ProgrammeVersions, *, alone: bool) -> None:
    """Replay the next command. A command that cannot be executed counts as different. ``alone``: no other
    card of the account has a command in its millisecond."""
    command, card_id = _command(row["command"]), row["actor_id"]
    unit.commands += 1
    try:
        earlier_rules = by_earlier_rules(command, row["inputs"], row["decision"])
        unit.earlier_rules = unit.earlier_rules or earlier_rules
        if unit.earlier_rules:
            _pass_over(unit.state, command, row)
            return
        executed = _execute(unit.state, command, row, programmes)
        unit.state.record(card_id, row["command_key"], executed.effects, executed.authorization_id)
    except (AssertionError, KeyError, msgspec.DecodeError):
        # A decision whose configuration is missing has no inputs that can be decoded.
        unit.differs_at = f"{card_id}/{row['seq']}"
        return
    if not executed.journaled or not _same_answer(executed.reply, row["reply"].encode(), alone=alone):
        unit.differs_at = f"{card_id}/{row['seq']}"


def _pass_over(state: ReplayedState, command: CardCommand, row: Any) -> None:
    """Count a command after one under earlier rules."""
    if isinstance(command, CreateCard):
        state.issue(command, to_ms(row["recorded_at"]))
    state.skip(row["actor_id"])


def _same_answer(reply: Reply, stored: bytes, *, alone: bool) -> bool:
    """Whether ``reply`` has the stored bytes. A release may add members to the answers to REST requests; then
    the members of the stored answer are compared. Declines of the first release have no reason in their
    reply. The order of loads in one millisecond is unknown, and so is the balance after each: it is compared
    only if ``alone``."""
    if _encode(reply) == stored:
        return True
    if isinstance(reply, WireAnswer) and b'"reason"' not in stored:
        return _encode(msgspec.structs.replace(reply, reason=None)) == stored
    if not isinstance(reply, Done):
        return False
    before = _reply(stored)
    return (
        isinstance(before, Done)
        and before.status == reply.status
        and all(
            name in reply.body and reply.body[name] == value
            for name, value in before.body.items()
            if alone or name != "available"
        )
    )


def _execute(state: ReplayedState, command: CardCommand, row: Any, programmes: ProgrammeVersions) -> Executed:
    at_ms = to_ms(row["recorded_at"])
    if isinstance(command, CreateCard):
        return state.issue(command, at_ms)
    programme_id = state.cards[row["actor_id"]].card.programme_id
    inputs = decode_inputs(row["inputs"]) if row["inputs"] else None
    if inputs is None:
        config = programmes.at(programme_id, at_ms)
        return execute(command, state.context(row["actor_id"], command, config, None, at_ms), at_ms)
    config = programmes.numbered(programme_id, inputs.programme_version)
    rules = state.recorded_rules(inputs.rules_in_force, programmes)
    past = None if inputs.rules_in_force is None else RecordedPast(inputs.rules_in_force.observed)
    context = state.context(row["actor_id"], command, config, inputs.endpoint_result, at_ms, rules, past)
    return execute(command, context, at_ms)
