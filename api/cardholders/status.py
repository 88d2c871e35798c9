"""Putting a cardholder's status in force on every card, despite interruptions.

A status change is a row (``cardholder_status_changes``) from its beginning to its end:

- *Blocking and closing*: record the change, make every card decline, then update the cardholder's row.
- *Activating*: update the cardholder's row together with the change, then release every card.

Therefore no card of a cardholder shown as blocked approves. The next request for this cardholder, or the
sweeper, finishes an interrupted change with the same commands under the same command keys. One change is
finished before another begins: by then every command of the earlier change has been executed under its key,
so a copy that is still in flight has no effect.

A new card declines until ``release`` has verified, after the card exists, that its cardholder is active.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import Final

import msgspec

from api.database.pool import Connection, connected, transaction
from api.http.problems import unavailable
from api.services import Services
from engine.acts import Act, ActorKind
from engine.commands import SetCardholderStatus
from engine.ids import Derived, derive, id_of_pair, key_of
from engine.instant import to_datetime
from engine.limits import CARDHOLDER_CARDS_AT_ONCE, CARDHOLDER_RESUME_SECONDS
from engine.replies import Done

_OPEN: Final = """
    SELECT id::text, status, actor, actor_kind, request_id
    FROM cardholder_status_changes WHERE cardholder_id = $1::uuid
"""
_BEGIN: Final = """
    INSERT INTO cardholder_status_changes
        (cardholder_id, id, status, resume_at, actor, actor_kind, request_id)
    VALUES ($1::uuid, $2::uuid, $3, $4, $5, $6, $7)
"""
_END: Final = (
    "DELETE FROM cardholder_status_changes WHERE cardholder_id = $1::uuid AND id = $2::uuid RETURNING 1"
)
_STATUS: Final = "SELECT status FROM cardholders WHERE id = $1::uuid"
# Cards in a final state are never used again.
_CARDS: Final = """
    SELECT id::text FROM cards
    WHERE cardholder_id = $1::uuid AND state NOT IN ('terminated', 'lost', 'stolen')
"""
# Existing cards only. The activations of other cards have not been sent and will not be.
_BEING_ISSUED: Final = """
    SELECT card_id::text FROM card_issues
    WHERE cardholder_id = $1::uuid AND EXISTS (SELECT FROM cards WHERE id = card_id)
"""
_ISSUES_END: Final = "DELETE FROM card_issues WHERE card_id = ANY ($1::uuid[])"
_ISSUE: Final = """
    SELECT i.cardholder_id::text, h.tenant_id::text, h.live, h.status
    FROM card_issues i JOIN cardholders h ON h.id = i.cardholder_id
    WHERE i.card_id = $1::uuid FOR SHARE OF h
"""


class StatusChange(msgspec.Struct, frozen=True):
    """An open change of a cardholder's status to ``status``; the ids of its commands derive from ``id``."""

    id: str
    cardholder_id: str
    tenant_id: str
    live: bool
    status: str
    actor: str | None = None
    """Who began the change, and with which request; ``None`` if the release before began it."""
    actor_kind: ActorKind = "client"
    request_id: str | None = None

    @property
    def active(self) -> bool:
        return self.status == "active"

    @property
    def act(self) -> Act | None:
        """The act whose change this is."""
        if self.actor is None or self.request_id is None:
            return None
        return Act("update_cardholder", self.actor, self.request_id, self.actor_kind)


class CardholderRef(msgspec.Struct, frozen=True):
    """A cardholder by id, with tenant and mode."""

    cardholder_id: str
    tenant_id: str
    live: bool


async def open_change(connection: Connection, of: CardholderRef) -> StatusChange | None:
    """The cardholder's open change, if any; the caller has locked the cardholder's row."""
    row = await connection.fetchrow(_OPEN, of.cardholder_id)
    if row is None:
        return None
    id_, status, actor, actor_kind, request_id = row
    return StatusChange(id_, of.cardholder_id, of.tenant_id, of.live, status, actor, actor_kind, request_id)


async def begin(
    connection: Connection, services: Services, of: CardholderRef, status: str, act: Act | None
) -> StatusChange:
    """Record a change to ``status``, which ``act`` asks for. The caller has locked the cardholder's row,
    which has no open change."""
    change = StatusChange(
        services.new_id(),
        of.cardholder_id,
        of.tenant_id,
        of.live,
        status,
        *(() if act is None else (act.actor, act.actor_kind, act.request_id)),
    )
    by = (change.actor, change.actor_kind, change.request_id)
    await connection.execute(_BEGIN, change.cardholder_id, change.id, status, resume_at(services), *by)
    return change


async def end(connection: Connection, change: StatusChange) -> bool:
    """End ``change``, which is in force on every card. ``False`` if another request has ended it."""
    if not await connection.fetchval(_END, change.cardholder_id, change.id):
        return False
    if not change.active:
        # The activations of these cards were executed by put_in_force, or will never be sent.
        issued = await connection.fetch(_BEING_ISSUED, change.cardholder_id)
        await connection.execute(_ISSUES_END, [row["card_id"] for row in issued])
    return True


async def put_in_force(services: Services, change: StatusChange) -> None:
    """Apply ``change`` to every card of the cardholder. Raises ``Refusal`` 500 when an owner is
    unavailable."""
    async with connected(services.pool) as connection:
        status = await connection.fetchval(_STATUS, change.cardholder_id)
        issues = [row["card_id"] for row in await connection.fetch(_BEING_ISSUED, change.cardholder_id)]
        cards = [row["id"] for row in await connection.fetch(_CARDS, change.cardholder_id)]
    if status == "active" and not change.active:
        # A card's activation may be in flight. After its reply, no copy of it can execute.
        await _submit(services, [_activation(change, card_id) for card_id in issues])
    await _submit(services, [_command(change, card_id) for card_id in cards])


async def reserve_issue(connection: Connection, services: Services, card_id: str, cardholder_id: str) -> None:
    """Record that ``card_id`` is being issued, before its owner creates it."""
    statement = "INSERT INTO card_issues VALUES ($1::uuid, $2::uuid, $3)"
    await connection.execute(statement, card_id, cardholder_id, resume_at(services))


async def release(services: Services, card_id: str) -> None:
    """Release a new card if its cardholder is active, and end its issue; idempotent. Raises ``Refusal`` 500
    when its owner is unavailable.
    """
    async with transaction(services.pool) as connection:
        row = await connection.fetchrow(_ISSUE, card_id)
        if row is None:
            return
        of = CardholderRef(row["cardholder_id"], row["tenant_id"], row["live"])
        change = await open_change(connection, of)
        usable = row["status"] == "active" and (change is None or change.active)
        if not usable:
            # The card keeps declining, as at its creation. A later activation of the cardholder includes it.
            await connection.execute(_ISSUES_END, [card_id])
    if usable:
        await _submit(services, [_activation(of, card_id)])
        async with connected(services.pool) as connection:
            await connection.execute(_ISSUES_END, [card_id])


def resume_at(services: Services) -> datetime:
    """The instant from which a sweeper takes over work that begins now."""
    return to_datetime(services.clock.now_ms() + CARDHOLDER_RESUME_SECONDS * 1000)


async def _submit(services: Services, commands: Sequence[SetCardholderStatus]) -> None:
    """Submit ``commands`` to their owners. Raises ``Refusal`` 500 unless all are executed."""
    for start in range(0, len(commands), CARDHOLDER_CARDS_AT_ONCE):
        some = commands[start : start + CARDHOLDER_CARDS_AT_ONCE]
        replies = await asyncio.gather(*(services.owners.submit(command) for command in some))
        if not all(isinstance(reply, Done) for reply in replies):
            raise unavailable()


def _command(change: StatusChange, card_id: str) -> SetCardholderStatus:
    return _set_status(id_of_pair(change.id, card_id), change, card_id, active=change.active)


def _activation(of: CardholderRef | StatusChange, card_id: str) -> SetCardholderStatus:
    """The command that releases a new card. Its id derives from the card's, so it executes only once."""
    return _set_status(derive(card_id, Derived.CARDHOLDER), of, card_id, active=True)


def _set_status(
    id_: str, of: CardholderRef | StatusChange, card_id: str, *, active: bool
) -> SetCardholderStatus:
    return SetCardholderStatus(
        id=id_, command_key=key_of(id_), card_id=card_id, tenant_id=of.tenant_id, live=of.live, active=active
    )
