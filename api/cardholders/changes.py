"""Changing a cardholder. A status is in force on every card of the cardholder before the change is
acknowledged (see ``api.cardholders.status``).
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import asyncpg
from pydantic import ConfigDict, model_validator
from starlette.responses import Response

from actors.vault import VaultError
from api.cardholders.routes import Address, CardholderStatus, CardholderView, Phone
from api.cardholders.status import CardholderRef, StatusChange, begin, end, open_change, put_in_force
from api.database.pool import Connection, transaction
from api.events.log import record, write
from api.http.answers import json_response
from api.http.fields import Day, Email, Text100, Text255
from api.http.problems import Refusal, not_found, unavailable
from api.http.refusals import refusals
from api.http.validation import Input, broken
from api.metadata.inputs import MetadataChange
from api.metadata.store import change as change_metadata
from api.metadata.store import require_room
from api.operations.acts import Change, act_of, record_act, write_act
from api.operations.call import Call, OptionallyKeyedCall, PathId
from api.operations.idempotency import once
from api.operations.route import new_router
from api.people.personal_data import COLUMNS, FIELDS, People, log_unreadable, seal_person
from api.people.rows import FIND, KIND, PERSONAL, event_data, show
from api.services import Services
from engine.instant import to_datetime
from engine.limits import CARDHOLDER_CHANGES_IN_ROW_MAX

router = new_router("Cardholders")

TRANSITIONS: Final[dict[str, frozenset[str]]] = {
    "active": frozenset({"blocked", "closed"}),
    "blocked": frozenset({"active", "closed"}),
    "closed": frozenset(),
}
"""Allowed changes of the cardholder's status; an absent pair is illegal."""

_SEAL: Final = f"""
    UPDATE cardholders
    SET {", ".join(f"{name} = ${2 + i}" for i, name in enumerate(COLUMNS))}
    WHERE id = $1::uuid
"""
_UPDATE: Final = """
    UPDATE cardholders SET external_ref = $2, status = $3, updated_at = $4 WHERE id = $1::uuid
"""
_SET_STATUS: Final = "UPDATE cardholders SET status = $2, updated_at = $3 WHERE id = $1::uuid"
_OPEN: Final = ("external_ref", "status")
"""Members stored unsealed."""


class CardholderChange(Input):
    """Members of a cardholder to replace; at least one. `null` removes an optional member."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1})

    given_name: Text100 = ""
    family_name: Text100 = ""
    email: Email = ""
    phone: Phone | None = None
    date_of_birth: Day | None = None
    address: Address | None = None
    external_ref: Text255 | None = None
    status: CardholderStatus = "active"
    metadata: MetadataChange | None = None
    """Merged with the stored pairs. A pair with `null` is removed; `null` without an object removes all."""

    @model_validator(mode="after")
    def _require_member(self) -> CardholderChange:
        if not self.model_fields_set:
            raise broken("missing", "Name at least one member to change.")
        return self


class Update(NamedTuple):
    """One request to change a cardholder."""

    cardholder_id: str
    given: CardholderChange
    call: Call


@router.patch(
    "/v1/cardholders/{id}",
    response_model=CardholderView,
    responses=refusals("not-found", "invalid-state-transition", "cardholder-erased"),
)
async def update_cardholder(
    cardholder_id: PathId, given: CardholderChange, call: OptionallyKeyedCall
) -> Response:
    """Change a cardholder.

    Members that are left out stay as they are. The cards of a cardholder who is `blocked` or `closed` are
    declined; `closed` is final. An acknowledged status applies to every later authorization. A status change
    that ends with 500 has begun and is finished within a minute: the cardholder shows `blocked` or `closed`
    only when every card declines, and `active` before any card is released. Emits `cardholder.updated`, which
    carries no personal data; a change without effect emits no event.
    """
    update = Update(cardholder_id, given, call)
    if "status" in given.model_fields_set:
        return await _with_status(update)

    async def work(connection: Connection) -> Response:
        row = await _change(update, connection, await _locked(update, connection))
        return json_response(200, _answer(row, call.services))

    return await once(call.services, call.claim, work)


async def _with_status(update: Update) -> Response:
    """Set the status, and return the response once the status is in force on every card."""
    for _ in range(CARDHOLDER_CHANGES_IN_ROW_MAX):
        change = await _begin(update)
        await put_in_force(update.call.services, change)
        try:
            return await _end(update, change)
        except _EndedElsewhereError:
            continue
    raise unavailable()


async def _begin(update: Update) -> StatusChange:
    """Begin a change to the requested status, or return the open one; other open changes are finished
    first."""
    services, target = update.call.services, update.given.status
    for _ in range(CARDHOLDER_CHANGES_IN_ROW_MAX):
        async with transaction(services.pool) as connection:
            row = await _locked(update, connection)
            of = CardholderRef(row["id"], update.call.caller.tenant_id, update.call.caller.live)
            change = await open_change(connection, of)
            if row["erased_at"] is not None and row["status"] != target:
                raise Refusal("cardholder-erased")
            if change is None or change.status == target:
                _require_move(row["status"], target)
                # A refusal after the status is in force would come too late.
                await require_room(connection, row["id"], _asked(update))
                if target == "active":
                    # Update the row first, so that it never shows blocked while a card may approve.
                    await _change(update, connection, row)
                return change or await begin(connection, services, of, target, act_of(update.call))
        await finish(services, change)
    raise unavailable()


async def _end(update: Update, change: StatusChange) -> Response:
    async def work(connection: Connection) -> Response:
        row = await _locked(update, connection)
        if not await end(connection, change):
            raise _EndedElsewhereError
        changed = await _change(update, connection, row)
        return json_response(200, _answer(changed, update.call.services))

    return await once(update.call.services, update.call.claim, work)


class _EndedElsewhereError(Exception):
    """Another request, or the sweeper, has ended the change, and the status may have changed since."""


async def finish(services: Services, change: StatusChange) -> None:
    """Finish a change begun by another request. Raises ``Refusal`` 500 when a card's owner is unavailable."""
    await put_in_force(services, change)
    async with transaction(services.pool) as connection:
        found = (change.cardholder_id, change.tenant_id, change.live)
        row = await connection.fetchrow(FIND + " FOR UPDATE", *found)
        if row is None or not await end(connection, change) or row["status"] == change.status:
            return
        now_ms = services.clock.now_ms()
        await connection.execute(_SET_STATUS, change.cardholder_id, change.status, to_datetime(now_ms))
        changed = await connection.fetchrow(FIND, *found)
        assert changed is not None, "locked in this transaction"
        data = event_data(changed) | {"changed": ["status"]}
        await write(connection, services.new_id(), change, "cardholder.updated", data, now_ms)
        if change.act is not None:
            before, after = {"status": row["status"]}, {"status": change.status}
            act = Change(KIND, change.cardholder_id, before, after)
            await write_act(connection, change.act, change, act, now_ms)


async def _locked(update: Update, connection: Connection) -> asyncpg.Record:
    """The caller's cardholder, locked until the transaction ends. Raises ``Refusal`` 404."""
    caller = update.call.caller
    row = await connection.fetchrow(FIND + " FOR UPDATE", update.cardholder_id, caller.tenant_id, caller.live)
    if row is None:
        raise not_found()
    return row


def _require_move(before: str, after: str) -> None:
    if after not in {before, *TRANSITIONS[before]}:
        detail = f"A cardholder who is {before} cannot become {after}."
        raise Refusal("invalid-state-transition", detail)


async def _change(update: Update, connection: Connection, row: asyncpg.Record) -> asyncpg.Record:
    """Apply the change, record its event and return the new row; without effect, return the same row."""
    services, caller = update.call.services, update.call.caller
    given, reseals = update.given.model_fields_set, not update.given.model_fields_set.isdisjoint(FIELDS)
    before: dict[str, Any] = {name: row[name] for name in _OPEN}
    # A status change blocks cards, so it must work even if the personal data cannot be decrypted.
    if reseals:
        before |= People(services.vault).of(row)
    asked = _asked(update)
    id_ = row["id"]
    if "metadata" in given:
        pairs = {"metadata": asked.pop("metadata")}
        about = await change_metadata(connection, caller, "cardholder", id_, pairs)
        before["metadata"], asked["metadata"] = (values.metadata for values in about)
    after = before | asked
    if after == before:
        return row
    if row["erased_at"] is not None:
        raise Refusal("cardholder-erased")
    _require_move(before["status"], after["status"])
    now_ms = services.clock.now_ms()
    if reseals:
        sealed = seal_person(services.vault, row["tenant_id"], caller.live, id_, after, row["data_key"])
        await services.clear_columns.write(connection, id_, after)
        await connection.execute(_SEAL, id_, *sealed)
    await connection.execute(_UPDATE, id_, after["external_ref"], after["status"], to_datetime(now_ms))
    changed = await connection.fetchrow(FIND, id_, caller.tenant_id, caller.live)
    assert changed is not None, "locked in this transaction"
    names = [name for name in (*FIELDS, *_OPEN, "metadata") if after.get(name) != before.get(name)]
    await record(
        connection, services, caller, "cardholder.updated", event_data(changed) | {"changed": names}, now_ms
    )
    await record_act(connection, update.call, Change(KIND, id_, before, after, PERSONAL))
    return changed


def _asked(update: Update) -> dict[str, Any]:
    """The members of the request."""
    return update.given.model_dump(include=update.given.model_fields_set)


def _answer(row: asyncpg.Record, services: Services) -> dict[str, Any]:
    """The cardholder. Personal data that cannot be decrypted are left out; the status change stands."""
    try:
        return show(row, People(services.vault))
    except VaultError:
        log_unreadable(row["id"])
        return show({**row, **dict.fromkeys(COLUMNS), "clear": None}, People(services.vault))
