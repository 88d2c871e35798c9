"""A card's journal lived through again: the same commands, by the same pure functions, must give the same
answers, and leave the card, its account and its transactions as they stand.

Cards that share an account are left out: their journals together have no order that rows could tell.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

import asyncpg
import msgspec

from engine.authorization.effects import AuthorizationOpened
from engine.authorization.executed import CommandContext, Executed
from engine.authorization.lifecycle import RULES
from engine.cards.account import Account
from engine.cards.authorization import Authorization
from engine.cards.card import Card
from engine.cards.known import Known
from engine.commands import (
    Advise,
    AuthorizationCommand,
    Authorize,
    CardCommand,
    CreateCard,
    CreateProgramme,
    Present,
    ProgrammeCommand,
    Reverse,
    reference_of_id,
    reference_of_message,
)
from engine.decision import decide
from engine.decision.recorded import decode_inputs
from engine.execution import execute_programme
from engine.execution.execute import execute
from engine.execution.issuing import card_of, issue
from engine.instant import to_ms
from engine.programmes.programme import Programme, ProgrammeConfig

FETCH: Final = 1_000

_PROGRAMMES: Final = """
    SELECT j.actor_id::text, j.command, j.recorded_at FROM journal j
    WHERE j.actor_id IN (SELECT id FROM programmes) ORDER BY j.actor_id, j.seq"""
_LIVES: Final = """
    SELECT j.actor_id::text, j.seq, j.command_key, j.command, j.inputs, j.decision, j.reply,
           j.recorded_at
    FROM journal j JOIN cards c ON c.id = j.actor_id
    WHERE NOT EXISTS (SELECT FROM cards o WHERE o.account_id = c.account_id AND o.id <> c.id)
    ORDER BY j.actor_id, j.seq"""
_STANDS: Final = """
    SELECT u.day, u.day_count, u.day_amount_minor, u.seq, a.posted_minor, a.held_minor,
           (SELECT coalesce(jsonb_object_agg(t.id, jsonb_build_array(
               t.approved_minor, t.cleared_minor, t.reversed_minor, t.held_minor)), '{}')
            FROM transactions t WHERE t.card_id = u.card_id) AS transactions
    FROM card_usage u JOIN cards c ON c.id = u.card_id LEFT JOIN accounts a ON a.id = c.account_id
    WHERE u.card_id = $1::text::uuid"""


_REVERSALS_UNCHANGED_SINCE: Final = 1
"""The version of the rules since which reversals have the same effects as today, unless an advice of earlier
rules came before them."""


class _Rules(msgspec.Struct):
    """Of a follow-up's record."""

    rules: int = 0


_command = msgspec.json.Decoder(CardCommand).decode
_governed = msgspec.json.Decoder(ProgrammeCommand).decode
_rules = msgspec.json.Decoder(_Rules).decode
_encode = msgspec.json.Encoder().encode


@dataclass
class ReplayedCard:
    """One card and its account in memory, as their owner had them."""

    card_id: str
    card: Card | None = None
    account: Account | None = None
    known: Known = field(default_factory=Known)
    commands: int = 0
    differs_at: int | None = None
    """The first ``seq`` whose stored answer is not the one that it gets again."""
    earlier_rules: bool = False
    """Whether earlier rules moved its figures: its journal comes to others under these. Each of its decisions
    is still made again, by the rules that its inputs name (``ops.audit``)."""


class ProgrammeVersions:
    """Every version of every programme, and since when it was in force."""

    def __init__(self) -> None:
        self._versions: dict[str, list[tuple[int, Programme]]] = {}

    def govern(self, programme_id: str, command: ProgrammeCommand, at_ms: int) -> None:
        """One more version."""
        versions = self._versions.setdefault(programme_id, [])
        if isinstance(command, CreateProgramme):
            governed = execute_programme.create(command, at_ms)
        else:
            governed = execute_programme.execute_programme(command, versions[-1][1], at_ms)
        if governed.after is not None:
            versions.append((at_ms, governed.after))

    def config(self, programme_id: str, version: int | None, at_ms: int) -> ProgrammeConfig:
        """The version that a decision names, or the one in force at an instant."""
        versions = self._versions[programme_id]
        if version is not None:
            return next(each.config for _, each in versions if each.config.version == version)
        in_force = (each.config for since, each in reversed(versions) if since <= at_ms)
        return next(in_force, versions[0][1].config)


async def replay_cards(connection: asyncpg.Connection[asyncpg.Record]) -> AsyncIterator[ReplayedCard]:
    """Every life, one after the other; ``connection`` is inside a transaction."""
    programmes = ProgrammeVersions()
    async for row in connection.cursor(_PROGRAMMES, prefetch=FETCH):
        programmes.govern(row["actor_id"], _governed(row["command"]), to_ms(row["recorded_at"]))
    life: ReplayedCard | None = None
    async for row in connection.cursor(_LIVES, prefetch=FETCH):
        if life is None or life.card_id != row["actor_id"]:
            if life is not None:
                yield life
            life = ReplayedCard(row["actor_id"])
        if life.differs_at is None:
            _step(life, row, programmes)
    if life is not None:
        yield life


async def rows_agree(connection: asyncpg.Connection[asyncpg.Record], life: ReplayedCard) -> bool:
    """Whether the rows say what the life has come to."""
    row = await connection.fetchrow(_STANDS, life.card_id)
    card, account = life.card, life.account
    if row is None or card is None:
        return False
    if life.earlier_rules:
        return bool(row["seq"] == card.seq)
    counters = (row["day"], row["day_count"], row["day_amount_minor"], row["seq"])
    balance = (row["posted_minor"], row["held_minor"])
    told = {id_: tuple(figures) for id_, figures in msgspec.json.decode(row["transactions"]).items()}
    return (
        counters == (card.day, card.day_count, card.day_amount_minor, card.seq)
        and balance == ((account.posted_minor, account.held_minor) if account else (None, None))
        and told == dict(_figures(life.known, account))
    )


def _figures(known: Iterable[Authorization], account: Account | None) -> dict[str, tuple[int, ...]]:
    return {
        each.id: (each.approved_minor, each.cleared_minor, each.reversed_minor, _held(each, account))
        for each in known
    }


def _held(authorization: Authorization, account: Account | None) -> int:
    hold = account.holds.get(authorization.hold_id or "") if account else None
    return hold.amount_minor if hold else 0


def _step(life: ReplayedCard, row: Any, programmes: ProgrammeVersions) -> None:
    """The next command of a life; a life that cannot go on differs."""
    command = _command(row["command"])
    life.commands += 1
    life.earlier_rules = life.earlier_rules or _by_earlier_rules(command, row)
    if life.earlier_rules:
        if life.card is not None:
            life.card.seq += 1
        return
    try:
        executed = _execute(life, command, row, programmes)
    except (AssertionError, KeyError, StopIteration):
        life.differs_at = row["seq"]
        return
    for effect in executed.effects:
        if isinstance(effect, AuthorizationOpened):
            life.known.learn(effect.authorization)
    about = reference_of_id(executed.authorization_id or "")
    if about in life.known:
        life.known.also(reference_of_message(row["command_key"]), life.known[about])
    if life.card is not None:
        life.card.seq += 1
    if not executed.journaled or _encode(executed.reply) != row["reply"].encode():
        life.differs_at = row["seq"]


def _by_earlier_rules(command: CardCommand, row: Any) -> bool:
    """Whether rules were in force that may have given ``command`` other effects than today's."""
    if isinstance(command, Reverse | Present | Advise):
        least = _REVERSALS_UNCHANGED_SINCE if isinstance(command, Reverse) else RULES
        return row["decision"] is not None and _rules(row["decision"]).rules < least
    if not isinstance(command, Authorize) or not row["inputs"]:
        return False
    inputs = decode_inputs(row["inputs"])
    return inputs.rules < decide.RULES and bool(command.references or inputs.consulted)


def _execute(life: ReplayedCard, command: CardCommand, row: Any, programmes: ProgrammeVersions) -> Executed:
    at_ms = to_ms(row["recorded_at"])
    if isinstance(command, CreateCard):
        life.card = card_of(command, at_ms)
        life.account = _account(command) if command.account_id is not None else None
        return issue(command, life.card, life.account)
    assert life.card is not None, "a life begins with the card's issue"
    inputs = decode_inputs(row["inputs"]) if row["inputs"] else None
    version = inputs.programme_version if inputs else None
    config = programmes.config(life.card.programme_id, version, at_ms)
    original: Authorization | None = None
    if isinstance(command, AuthorizationCommand):
        original = life.known.original(command, life.account, at_ms)
    consulted = inputs.consulted if inputs else None
    return execute(command, CommandContext(life.card, life.account, config, original, consulted), at_ms)


def _account(command: CreateCard) -> Account:
    return Account(
        id=command.account_id or "",
        tenant_id=command.tenant_id,
        live=command.live,
        programme_id=command.programme_id,
        currency=command.currency,
    )
