"""Replays each card's journal: the same commands through the same pure functions must give the same answers
and the same state of the card, its account and its transactions.

Cards that share an account, as a card and its replacement do, are left out: the rows do not show the order of
their commands.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

import asyncpg
import msgspec

from engine.authorization.executed import Executed
from engine.cards.account import Account
from engine.cards.authorization import Authorization
from engine.cards.card import Card
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
_COMMANDS: Final = """
    SELECT j.actor_id::text, j.seq, j.command_key, j.command, j.inputs, j.decision, j.reply,
           j.recorded_at
    FROM journal j JOIN cards c ON c.id = j.actor_id
    WHERE NOT EXISTS (SELECT FROM cards o WHERE o.account_id = c.account_id AND o.id <> c.id)
    ORDER BY j.actor_id, j.seq"""
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
class ReplayedCard:
    """One card and its account in memory, as their owner had them."""

    card_id: str
    state: ReplayedState = field(default_factory=ReplayedState)
    commands: int = 0
    differs_at: int | None = None
    """The first ``seq`` whose replayed answer differs from the stored one."""
    earlier_rules: bool = False
    """Whether a command ran under earlier rules, so that the present rules give other figures. Its decisions
    are still recomputed under the rules that their inputs name (``ops.audit``)."""

    @property
    def card(self) -> Card | None:
        """The card; ``None`` before its issue."""
        replayed = self.state.cards.get(self.card_id)
        return None if replayed is None else replayed.card


async def replay_cards(connection: asyncpg.Connection[asyncpg.Record]) -> AsyncIterator[ReplayedCard]:
    """Replay every card, one after the other; ``connection`` is inside a transaction."""
    programmes = ProgrammeVersions()
    async for row in connection.cursor(_PROGRAMMES, prefetch=FETCH):
        programmes.add(row["actor_id"], _programme_command(row["command"]), to_ms(row["recorded_at"]))
    replayed: ReplayedCard | None = None
    async for row in connection.cursor(_COMMANDS, prefetch=FETCH):
        if replayed is None or replayed.card_id != row["actor_id"]:
            if replayed is not None:
                yield replayed
            replayed = ReplayedCard(row["actor_id"])
        if replayed.differs_at is None:
            _replay_command(replayed, row, programmes)
    if replayed is not None:
        yield replayed


async def rows_agree(connection: asyncpg.Connection[asyncpg.Record], replayed: ReplayedCard) -> bool:
    """Whether the rows agree with the replayed state."""
    row = await connection.fetchrow(_STATE, replayed.card_id)
    card, account = replayed.card, replayed.state.account
    if row is None or card is None:
        return False
    if replayed.earlier_rules:
        return bool(row["seq"] == card.seq)
    counters = (row["day"], row["day_count"], row["day_amount_minor"], row["seq"])
    balance = (row["posted_minor"], row["held_minor"])
    stored = {id_: tuple(figures) for id_, figures in msgspec.json.decode(row["transactions"]).items()}
    return (
        counters == (card.day, card.day_count, card.day_amount_minor, card.seq)
        and balance == ((account.posted_minor, account.held_minor) if account else (None, None))
        and stored == dict(_figures(replayed.state.cards[replayed.card_id].known, account))
    )


def _figures(known: Iterable[Authorization], account: Account | None) -> dict[str, tuple[int, ...]]:
    return {
        each.id: (each.approved_minor, each.cleared_minor, each.reversed_minor, _held(each, account))
        for each in known
    }


def _held(authorization: Authorization, account: Account | None) -> int:
    hold = account.holds.get(authorization.hold_id or "") if account else None
    return hold.amount_minor if hold else 0


def _replay_command(replayed: ReplayedCard, row: Any, programmes: ProgrammeVersions) -> None:
    """Replay the next command. A card whose command cannot be executed counts as different."""
    command = _command(row["command"])
    replayed.commands += 1
    replayed.earlier_rules = replayed.earlier_rules or by_earlier_rules(
        command, row["inputs"], row["decision"]
    )
    if replayed.earlier_rules:
        if replayed.card is not None:
            replayed.card.seq += 1
        return
    try:
        executed = _execute(replayed.state, command, row, programmes)
    except (AssertionError, KeyError):
        replayed.differs_at = row["seq"]
        return
    replayed.state.record(replayed.card_id, row["command_key"], executed.effects, executed.authorization_id)
    if not executed.journaled or not _same_answer(executed.reply, row["reply"].encode()):
        replayed.differs_at = row["seq"]


def _same_answer(reply: Reply, stored: bytes) -> bool:
    """Whether ``reply`` has the stored bytes. A release may add members to the answers to REST requests; then
    the members of the stored answer are compared. Declines of the first release have no reason in their
    reply."""
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
        and all(name in reply.body and reply.body[name] == value for name, value in before.body.items())
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
