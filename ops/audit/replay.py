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

from actors.journal.rule_versions import load_rule_versions
from engine.authorization.effects import AuthorizationOpened
from engine.authorization.executed import CommandContext, Executed
from engine.authorization.follow_up import RULES
from engine.cards.account import Account
from engine.cards.authorization import Authorization
from engine.cards.authorization_index import AuthorizationIndex
from engine.cards.card import Card
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
from engine.decision import inputs as decision_inputs
from engine.decision.recorded import decode_inputs
from engine.execution import execute_programme
from engine.execution.execute import execute
from engine.execution.issuing import card_of, issue
from engine.instant import to_ms
from engine.programmes.programme import Programme, ProgrammeConfig
from engine.replies import Done, Reply, WireAnswer
from engine.rules.evaluate import RecordedPast, Versions, recorded_rules

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


_REVERSALS_UNCHANGED_SINCE: Final = 1
"""The first version of the rules in which reversals have their present effects, unless advices of earlier
rules preceded them."""


class _Rules(msgspec.Struct):
    """The rules' version in a follow-up's record."""

    rules: int = 0


_command = msgspec.json.Decoder(CardCommand).decode
_programme_command = msgspec.json.Decoder(ProgrammeCommand).decode
_rules = msgspec.json.Decoder(_Rules).decode
_reply = msgspec.json.Decoder(Reply).decode
_encode = msgspec.json.Encoder().encode


@dataclass
class ReplayedCard:
    """One card and its account in memory, as their owner had them."""

    card_id: str
    card: Card | None = None
    account: Account | None = None
    known: AuthorizationIndex = field(default_factory=AuthorizationIndex)
    commands: int = 0
    differs_at: int | None = None
    """The first ``seq`` whose replayed answer differs from the stored one."""
    earlier_rules: bool = False
    """Whether a command ran under earlier rules, so that the present rules give other figures. Its decisions
    are still recomputed under the rules that their inputs name (``ops.audit``)."""


class ProgrammeVersions:
    """All versions of all programmes, with the instant from which each was in force."""

    def __init__(self) -> None:
        self._versions: dict[str, list[tuple[int, Programme]]] = {}

    def add(self, programme_id: str, command: ProgrammeCommand, at_ms: int) -> None:
        """Add the version that ``command`` creates."""
        versions = self._versions.setdefault(programme_id, [])
        if isinstance(command, CreateProgramme):
            executed = execute_programme.create(command, at_ms)
        else:
            executed = execute_programme.execute_programme(command, versions[-1][1], at_ms)
        if executed.after is not None:
            versions.append((at_ms, executed.after))

    def config(self, programme_id: str, version: int | None, at_ms: int) -> ProgrammeConfig:
        """The version that a decision names, or the one in force at ``at_ms``."""
        versions = self._versions[programme_id]
        if version is not None:
            return next(each.config for _, each in versions if each.config.version == version)
        in_force = (each.config for since, each in reversed(versions) if since <= at_ms)
        return next(in_force, versions[0][1].config)


async def replay_cards(connection: asyncpg.Connection[asyncpg.Record]) -> AsyncIterator[ReplayedCard]:
    """Replay every card, one after the other; ``connection`` is inside a transaction."""
    programmes = ProgrammeVersions()
    versions = await load_rule_versions(connection)
    async for row in connection.cursor(_PROGRAMMES, prefetch=FETCH):
        programmes.add(row["actor_id"], _programme_command(row["command"]), to_ms(row["recorded_at"]))
    replayed: ReplayedCard | None = None
    async for row in connection.cursor(_COMMANDS, prefetch=FETCH):
        if replayed is None or replayed.card_id != row["actor_id"]:
            if replayed is not None:
                yield replayed
            replayed = ReplayedCard(row["actor_id"])
        if replayed.differs_at is None:
            _replay_command(replayed, row, programmes, versions)
    if replayed is not None:
        yield replayed


async def rows_agree(connection: asyncpg.Connection[asyncpg.Record], replayed: ReplayedCard) -> bool:
    """Whether the rows agree with the replayed state."""
    row = await connection.fetchrow(_STATE, replayed.card_id)
    card, account = replayed.card, replayed.account
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


def _replay_command(
    replayed: ReplayedCard, row: Any, programmes: ProgrammeVersions, versions: Versions
) -> None:
    """Replay the next command. A card whose command cannot be executed counts as different."""
    command = _command(row["command"])
    replayed.commands += 1
    replayed.earlier_rules = replayed.earlier_rules or _by_earlier_rules(command, row)
    if replayed.earlier_rules:
        if replayed.card is not None:
            replayed.card.seq += 1
        return
    try:
        executed = _execute(replayed, command, row, programmes, versions)
    except (AssertionError, KeyError, StopIteration):
        replayed.differs_at = row["seq"]
        return
    for effect in executed.effects:
        if isinstance(effect, AuthorizationOpened):
            replayed.known.add(effect.authorization)
    about = reference_of_id(executed.authorization_id or "")
    if about in replayed.known:
        replayed.known.add_reference(reference_of_message(row["command_key"]), replayed.known[about])
    if replayed.card is not None:
        replayed.card.seq += 1
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


def _by_earlier_rules(command: CardCommand, row: Any) -> bool:
    """Whether ``command`` ran under rules that may have given it other effects than the present ones."""
    if isinstance(command, Reverse | Present | Advise):
        least = _REVERSALS_UNCHANGED_SINCE if isinstance(command, Reverse) else RULES
        return row["decision"] is not None and _rules(row["decision"]).rules < least
    if not isinstance(command, Authorize) or not row["inputs"]:
        return False
    inputs = decode_inputs(row["inputs"])
    return inputs.rules < decision_inputs.RULES and bool(command.references or inputs.endpoint_result)


def _execute(
    replayed: ReplayedCard,
    command: CardCommand,
    row: Any,
    programmes: ProgrammeVersions,
    versions: Versions,
) -> Executed:
    at_ms = to_ms(row["recorded_at"])
    if isinstance(command, CreateCard):
        replayed.card = card_of(command, at_ms)
        replayed.account = _account(command) if command.account_id is not None else None
        return issue(command, replayed.card, replayed.account)
    assert replayed.card is not None, "a card's journal begins with its issue"
    inputs = decode_inputs(row["inputs"]) if row["inputs"] else None
    version = inputs.programme_version if inputs else None
    config = programmes.config(replayed.card.programme_id, version, at_ms)
    original: Authorization | None = None
    if isinstance(command, AuthorizationCommand):
        original = replayed.known.find_original(command, replayed.account, at_ms)
    endpoint_result = inputs.endpoint_result if inputs else None
    in_force = inputs.rules_in_force if inputs else None
    context = CommandContext(
        replayed.card,
        replayed.account,
        config,
        original,
        endpoint_result,
        recorded_rules(in_force, versions),
        RecordedPast(in_force.observed) if in_force else None,
    )
    return execute(command, context, at_ms)


def _account(command: CreateCard) -> Account:
    return Account(
        id=command.account_id or "",
        tenant_id=command.tenant_id,
        live=command.live,
        programme_id=command.programme_id,
        currency=command.currency,
    )
