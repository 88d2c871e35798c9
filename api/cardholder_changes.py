"""Changing a cardholder. A status is in force on every card of the cardholder before it is acknowledged.

The cardholder's row stays locked from its change until every card's owner has been told, and a card that is
being issued meanwhile looks at the row after it exists: one of the two always sees the other.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final, Literal

import asyncpg
from pydantic import ConfigDict, model_validator
from starlette.responses import Response

from actors.vault import VaultError
from api.auth import Caller
from api.cardholder_custody import COLUMNS, FIELDS, People, log_unreadable, seal_person
from api.cardholders import FIND, Address, CardholderView, Email, Phone, show, told
from api.database import Connection, transaction
from api.event_log import record
from api.fields import Day, Text100, Text255
from api.idempotency import once
from api.operations import Call, Family, json_response
from api.problems import Refusal, not_found, unavailable
from api.services import Services
from api.validation import Input, broken
from engine.commands import SetCardholderStatus
from engine.ids import key_of, shard_of
from engine.instant import to_datetime
from engine.replies import Done

family = Family("Cardholders")

TRANSITIONS: Final[dict[str, frozenset[str]]] = {
    "active": frozenset({"blocked", "closed"}),
    "blocked": frozenset({"active", "closed"}),
    "closed": frozenset(),
}
"""Cardholder status: from each to which; an absent pair is the illegal move."""

_SEAL: Final = f"""
    UPDATE cardholders
    SET {", ".join(f"{name} = ${2 + i}" for i, name in enumerate(COLUMNS))}
    WHERE id = $1::uuid
"""
_UPDATE: Final = """
    UPDATE cardholders SET external_ref = $2, status = $3, updated_at = $4 WHERE id = $1::uuid
"""
_STATUS: Final = "SELECT status FROM cardholders WHERE id = $1::uuid FOR SHARE"
# Cards in a final state are never used again.
_CARDS: Final = """
    SELECT id::text FROM cards
    WHERE cardholder_id = $1::uuid AND state NOT IN ('terminated', 'lost', 'stolen')
"""
_OPEN: Final = ("external_ref", "status")
"""Members that are not sealed."""


class CardholderChange(Input):
    """Parts of a cardholder to be replaced; at least one. `null` removes what can be absent."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1})

    given_name: Text100 = ""
    family_name: Text100 = ""
    email: Email = ""
    phone: Phone | None = None
    date_of_birth: Day | None = None
    address: Address | None = None
    external_ref: Text255 | None = None
    status: Literal["active", "blocked", "closed"] = "active"

    @model_validator(mode="after")
    def _something(self) -> CardholderChange:
        if not self.model_fields_set:
            raise broken("missing", "Name at least one member to change.")
        return self


@family.operation(
    "PATCH",
    "/v1/cardholders/{id}",
    "update_cardholder",
    takes=CardholderChange,
    gives={200: CardholderView},
    problems=("not-found", "invalid-state-transition", "cardholder-erased"),
)
async def update_cardholder(call: Call[CardholderChange]) -> Response:
    """Change a cardholder.

    Members that are left out stay as they are. The cards of a cardholder who is `blocked` or `closed` are
    declined; `closed` is final. A status acknowledged here is in force for every authorization that is asked
    for afterwards. Emits `cardholder.updated`, which carries no personal data; a change to what is already
    there emits nothing.
    """
    cardholder_id, services, caller = call.path_id(), call.services, call.caller

    async def work(connection: Connection) -> Response:
        row = await connection.fetchrow(FIND + " FOR UPDATE", cardholder_id, caller.tenant_id, caller.live)
        if row is None:
            raise not_found()
        row = await _change(call, connection, row)
        if "status" in call.given.model_fields_set:
            cards = [card["id"] for card in await connection.fetch(_CARDS, cardholder_id)]
            await _put_in_force(services, caller, cards, row["status"])
        return json_response(200, _answer(row, services))

    return await once(services, call.claim, work)


async def follow_status(services: Services, caller: Caller, cardholder_id: str, card_id: str) -> None:
    """Tell a card that has just been issued if its cardholder has meanwhile been blocked."""
    async with transaction(services.pool) as connection:
        status = await connection.fetchval(_STATUS, cardholder_id)
    if status != "active":
        await _put_in_force(services, caller, [card_id], status)


async def _change(
    call: Call[CardholderChange], connection: Connection, row: asyncpg.Record
) -> asyncpg.Record:
    """The row after the change, with its event; the same row when nothing changes."""
    services, caller = call.services, call.caller
    given, reseals = call.given.model_fields_set, not call.given.model_fields_set.isdisjoint(FIELDS)
    before: dict[str, Any] = {name: row[name] for name in _OPEN}
    # A status must not depend on personal data that can be opened: it blocks cards.
    if reseals:
        before |= People(services.vault).of(row)
    after = before | call.given.model_dump(include=given)
    if after == before:
        return row
    if row["erased_at"] is not None:
        raise Refusal("cardholder-erased")
    if after["status"] not in {before["status"], *TRANSITIONS[before["status"]]}:
        detail = f"A cardholder who is {before['status']} cannot become {after['status']}."
        raise Refusal("invalid-state-transition", detail)
    now_ms, id_ = services.clock.now_ms(), row["id"]
    if reseals:
        sealed = seal_person(services.vault, row["tenant_id"], caller.live, id_, after, row["data_key"])
        await services.clear_columns.write(connection, id_, after)
        await connection.execute(_SEAL, id_, *sealed)
    await connection.execute(_UPDATE, id_, after["external_ref"], after["status"], to_datetime(now_ms))
    changed = await connection.fetchrow(FIND, id_, caller.tenant_id, caller.live)
    assert changed is not None, "locked in this transaction"
    names = [name for name in (*FIELDS, *_OPEN) if after.get(name) != before.get(name)]
    await record(
        connection, services, caller, "cardholder.updated", told(changed) | {"changed": names}, now_ms
    )
    return changed


def _answer(row: asyncpg.Record, services: Services) -> dict[str, Any]:
    """The cardholder; without personal data where they cannot be opened, which does not undo a status."""
    try:
        return show(row, People(services.vault))
    except VaultError:
        log_unreadable(row["id"])
        return show({**row, **dict.fromkeys(COLUMNS), "clear": None}, People(services.vault))


async def _put_in_force(services: Services, caller: Caller, cards: list[str], status: str) -> None:
    """Have every card's owner know the cardholder's status. Raises ``Refusal`` 500 when one cannot be
    told.
    """
    commands = [_command(services, caller, card_id, status) for card_id in cards]
    replies = await asyncio.gather(*(services.owners.submit(command) for command in commands))
    if not all(isinstance(reply, Done) for reply in replies):
        raise unavailable()


def _command(services: Services, caller: Caller, card_id: str, status: str) -> SetCardholderStatus:
    id_ = services.new_id(shard_of(card_id))
    return SetCardholderStatus(
        id=id_,
        command_key=key_of(id_),
        card_id=card_id,
        tenant_id=caller.tenant_id,
        live=caller.live,
        active=status == "active",
    )
