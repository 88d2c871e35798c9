"""Putting a cardholder's status in force on every card, whatever is interrupted.

A status change is a row (``cardholder_status_changes``) from its beginning to its end:

- *Blocking and closing*: the change is recorded, every card declines, then the cardholder's row says so.
- *Activating*: the cardholder's row says so together with the change, then every card is released.

So a cardholder who is shown as blocked has no card that approves. A change that is interrupted is finished by
the next request for this cardholder or by the sweeper, with the same commands under the same command keys.
One change is finished before another begins: a command of an earlier change that is still on its way has
then been executed under its key, and its copy executes nothing.

A new card declines until ``release`` has seen, after the card exists, that its cardholder is active.
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
from engine.commands import SetCardholderStatus
from engine.ids import Derived, derive, joined, key_of
from engine.instant import to_datetime
from engine.limits import CARDHOLDER_CARDS_AT_ONCE, CARDHOLDER_RESUME_SECONDS
from engine.replies import Done

_OPEN: Final = "SELECT id::text, status FROM cardholder_status_changes WHERE cardholder_id = $1::uuid"
_BEGIN: Final = "INSERT INTO cardholder_status_changes VALUES ($1::uuid, $2::uuid, $3, $4)"
_END: Final = (
    "DELETE FROM cardholder_status_changes WHERE cardholder_id = $1::uuid AND id = $2::uuid RETURNING 1"
)
_STATUS: Final = "SELECT status FROM cardholders WHERE id = $1::uuid"
# Cards in a final state are never used again.
_CARDS: Final = """
    SELECT id::text FROM cards
    WHERE cardholder_id = $1::uuid AND state NOT IN ('terminated', 'lost', 'stolen')
"""
# Cards that exist. The activation of any other has not been sent, and will not be.
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
    """An open change of a cardholder's status to ``status``; ``id`` names its commands."""

    id: str
    cardholder_id: str
    tenant_id: str
    live: bool
    status: str

    @property
    def active(self) -> bool:
        return self.status == "active"


class Owned(msgspec.Struct, frozen=True):
    """A cardholder by id, with tenant and mode."""

    cardholder_id: str
    tenant_id: str
    live: bool


async def open_change(connection: Connection, of: Owned) -> StatusChange | None:
    """The change that has begun and not ended; the cardholder's row is locked by the caller."""
    row = await connection.fetchrow(_OPEN, of.cardholder_id)
    return (
        None
        if row is None
        else StatusChange(row["id"], of.cardholder_id, of.tenant_id, of.live, row["status"])
    )


async def begin(connection: Connection, services: Services, of: Owned, status: str) -> StatusChange:
    """Record a change to ``status``; the cardholder's row is locked by the caller, and has no open change."""
    change = StatusChange(services.new_id(), of.cardholder_id, of.tenant_id, of.live, status)
    await connection.execute(_BEGIN, change.cardholder_id, change.id, status, resume_at(services))
    return change


async def end(connection: Connection, change: StatusChange) -> bool:
    """End ``change``, which is in force on every card. ``False`` when another request has ended it."""
    if not await connection.fetchval(_END, change.cardholder_id, change.id):
        return False
    if not change.active:
        # Their activations have been executed by put_in_force, or will never be sent.
        issued = await connection.fetch(_BEING_ISSUED, change.cardholder_id)
        await connection.execute(_ISSUES_END, [row["card_id"] for row in issued])
    return True


async def put_in_force(services: Services, change: StatusChange) -> None:
    """Have every card of the cardholder follow ``change``. Raises ``Refusal`` 500 when an owner is away."""
    async with connected(services.pool) as connection:
        status = await connection.fetchval(_STATUS, change.cardholder_id)
        issues = [row["card_id"] for row in await connection.fetch(_BEING_ISSUED, change.cardholder_id)]
        cards = [row["id"] for row in await connection.fetch(_CARDS, change.cardholder_id)]
    if status == "active" and not change.active:
        # A card's activation may be on its way: once it was answered, no copy of it executes any more.
        await _submit(services, [_activation(change, card_id) for card_id in issues])
    await _submit(services, [_command(change, card_id) for card_id in cards])


async def reserve_issue(connection: Connection, services: Services, card_id: str, cardholder_id: str) -> None:
    """Record that ``card_id`` is being issued, before its owner creates it."""
    statement = "INSERT INTO card_issues VALUES ($1::uuid, $2::uuid, $3)"
    await connection.execute(statement, card_id, cardholder_id, resume_at(services))


async def release(services: Services, card_id: str) -> None:
    """Let a card that exists be used, if its cardholder is active, and end its issue; safe to repeat. Raises
    ``Refusal`` 500 when its owner is away.
    """
    async with transaction(services.pool) as connection:
        row = await connection.fetchrow(_ISSUE, card_id)
        if row is None:
            return
        of = Owned(row["cardholder_id"], row["tenant_id"], row["live"])
        change = await open_change(connection, of)
        usable = row["status"] == "active" and (change is None or change.active)
        if not usable:
            # The card declines, as it was made. A later activation of the cardholder includes it.
            await connection.execute(_ISSUES_END, [card_id])
    if usable:
        await _submit(services, [_activation(of, card_id)])
        async with connected(services.pool) as connection:
            await connection.execute(_ISSUES_END, [card_id])


def resume_at(services: Services) -> datetime:
    """The instant from which a sweeper takes over work that begins now."""
    return to_datetime(services.clock.now_ms() + CARDHOLDER_RESUME_SECONDS * 1000)


async def _submit(services: Services, commands: Sequence[SetCardholderStatus]) -> None:
    """Have the owners execute ``commands``. Raises ``Refusal`` 500 when one has not."""
    for start in range(0, len(commands), CARDHOLDER_CARDS_AT_ONCE):
        some = commands[start : start + CARDHOLDER_CARDS_AT_ONCE]
        replies = await asyncio.gather(*(services.owners.submit(command) for command in some))
        if not all(isinstance(reply, Done) for reply in replies):
            raise unavailable()


def _command(change: StatusChange, card_id: str) -> SetCardholderStatus:
    return _named(joined(change.id, card_id), change, card_id, active=change.active)


def _activation(of: Owned | StatusChange, card_id: str) -> SetCardholderStatus:
    """The command that lets a new card be used: one for each card, ever."""
    return _named(derive(card_id, Derived.CARDHOLDER), of, card_id, active=True)


def _named(id_: str, of: Owned | StatusChange, card_id: str, *, active: bool) -> SetCardholderStatus:
    return SetCardholderStatus(
        id=id_, command_key=key_of(id_), card_id=card_id, tenant_id=of.tenant_id, live=of.live, active=active
    )
