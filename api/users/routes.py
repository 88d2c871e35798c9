"""Users, managed by the owners of a tenant.

A user belongs to a tenant and may see one mode or both. A caller sees the users of its mode, and changes only
those who have no mode, role or scope beyond its own. Every change locks the tenant's row, as changes of
clients do.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

import asyncpg
from fastapi import Query
from starlette.requests import Request
from starlette.responses import Response

from api.access.owners import require_owner
from api.access.tokens import Caller
from api.database.pool import Connection, fetch_row
from api.http.answers import json_response
from api.http.fields import shown_instant
from api.http.problems import Refusal, not_found
from api.http.refusals import refusals
from api.http.scope import PREFIX
from api.operations.acts import Change, record_act
from api.operations.call import NO_MEMBERS, Call, Empty, KeyedCall, OptionallyKeyedCall, PathId, ReadCall
from api.operations.idempotency import once
from api.operations.pagination import page, page_model
from api.operations.route import new_router
from api.users.kind import KIND
from api.users.links import Link, create_link, end_links
from api.users.views import (
    FIND,
    PERSONAL,
    SELECT,
    TABLE,
    UserChange,
    UserInput,
    UserInvitationView,
    UsersQuery,
    UserView,
    scopes_of,
    show,
)
from engine.limits import USERS_MAX
from engine.scopes import MODES, includes

router = new_router("Users")

_COUNT: Final = "SELECT count(*) FROM users WHERE tenant_id = $1"
_INSERT: Final = """
    INSERT INTO users (id, tenant_id, email, name, role, modes, reveal) VALUES ($1, $2, $3, $4, $5, $6, $7)
    ON CONFLICT (email) DO NOTHING RETURNING true
"""
_UPDATE: Final = "UPDATE users SET name = $2, role = $3, modes = $4, reveal = $5 WHERE id = $1::uuid"
_DISABLE: Final = "UPDATE users SET disabled_at = now() WHERE id = $1::uuid"
_ENABLE: Final = "UPDATE users SET disabled_at = NULL WHERE id = $1::uuid"
_RESET_TOTP: Final = """
    UPDATE users SET totp_sealed = NULL, recovery_digests = '{}', failed_codes = 0, codes_after = now()
    WHERE id = $1::uuid
"""
_END_SESSIONS: Final = """
    WITH ended AS (DELETE FROM console_sessions WHERE user_id = $1::uuid RETURNING 1)
    SELECT count(*) FROM ended
"""
_CHANGEABLE: Final = ("name", "role", "modes", "reveal")
_RIGHTS: Final = ("role", "modes", "reveal")
_GUARDED: Final = ("role", "modes")


@router.post(
    "/v1/users",
    status_code=201,
    response_model=UserInvitationView,
    responses=refusals("grant-exceeds-caller", "user-limit", "user-exists"),
)
async def create_user(given: UserInput, call: KeyedCall, request: Request) -> Response:
    """Create a user and an invitation.

    The answer carries `invitation_url` once: give it to the user, who sets a password with it within seven
    days. Role, modes and scopes of the user are at most those of the caller. A tenant has at most 500 users.
    """
    caller = call.caller
    modes = given.modes or [caller.mode]
    _require_grantable(caller, given.role, modes, reveal=given.reveal)

    async def work(connection: Connection) -> Response:
        await require_owner(connection, caller)
        if await connection.fetchval(_COUNT, caller.tenant_id) >= USERS_MAX:
            raise Refusal("user-limit")
        id_ = call.services.new_id()
        values = (given.email, given.name, given.role, modes, given.reveal)
        if not await connection.fetchval(_INSERT, id_, caller.tenant_id, *values):
            raise Refusal("user-exists")
        shown = await _read(connection, caller, id_, modes)
        await record_act(connection, call, Change(KIND, id_, None, shown, PERSONAL))
        link = await create_link(connection, call.services.vault, id_, "invitation")
        return json_response(201, shown | _invitation(request, link))

    return await once(call.services, call.claim, work)


@router.get("/v1/users", response_model=page_model("Users", UserView))
async def list_users(query: Annotated[UsersQuery, Query()], call: ReadCall) -> Response:
    """List the users who may see the caller's mode, newest first, disabled ones included."""
    return await page(
        call.services,
        call.caller,
        query,
        table=TABLE,
        select=SELECT,
        filters={"r.status = ?": query.status},
        show=show,
    )


@router.get("/v1/users/{id}", response_model=UserView, responses=refusals("not-found"))
async def get_user(user_id: PathId, call: ReadCall) -> Response:
    """Get a user."""
    row = await fetch_row(call.services.pool, FIND, user_id, call.caller.tenant_id, call.caller.live)
    if row is None:
        raise not_found()
    return json_response(200, show(row))


@router.patch(
    "/v1/users/{id}",
    response_model=UserView,
    responses=refusals("not-found", "grant-exceeds-caller", "own-user"),
)
async def update_user(user_id: PathId, given: UserChange, call: OptionallyKeyedCall) -> Response:
    """Change a user.

    Members that are left out stay as they are. Open sessions have the new rights at once. Nobody changes the
    own role or modes.
    """
    caller = call.caller
    changes = given.model_dump(include=given.model_fields_set)

    async def work(connection: Connection) -> Response:
        before = await _require_manageable(connection, caller, user_id)
        after = before | changes
        if user_id == caller.id and any(before[name] != after[name] for name in _GUARDED):
            raise Refusal("own-user")
        if any(before[name] != after[name] for name in _RIGHTS):
            _require_grantable(caller, after["role"], after["modes"], reveal=after["reveal"])
        if after == before:
            return json_response(200, before)
        await connection.execute(_UPDATE, user_id, *(after[name] for name in _CHANGEABLE))
        return await _done(connection, call, before, after["modes"])

    return await once(call.services, call.claim, work)


@router.post(
    "/v1/users/{id}/invite",
    status_code=201,
    response_model=UserInvitationView,
    responses=refusals("not-found", "grant-exceeds-caller", "user-disabled"),
)
async def invite_user(
    user_id: PathId, call: KeyedCall, request: Request, _body: Empty = NO_MEMBERS
) -> Response:
    """Invite a user again, or let a user set a new password.

    An earlier invitation ends. The present password works until the user has set another one.
    """

    async def work(connection: Connection) -> Response:
        shown = await _require_manageable(connection, call.caller, user_id)
        # Whoever has the link can sign in as the user.
        _require_grantable(call.caller, shown["role"], shown["modes"], reveal=shown["reveal"])
        if shown["status"] == "disabled":
            raise Refusal("user-disabled")
        link = await create_link(connection, call.services.vault, user_id, "invitation")
        invited = {"invitation_expires_at": shown_instant(link.expires_at)}
        await record_act(connection, call, Change(KIND, user_id, None, invited))
        return json_response(201, shown | _invitation(request, link))

    return await once(call.services, call.claim, work)


@router.post(
    "/v1/users/{id}/disable",
    response_model=UserView,
    responses=refusals("not-found", "grant-exceeds-caller", "own-user"),
)
async def disable_user(user_id: PathId, call: KeyedCall, _body: Empty = NO_MEMBERS) -> Response:
    """Disable a user.

    The user's sessions and links end at once. Disabling a user again has no effect.
    """

    async def work(connection: Connection) -> Response:
        before = await _require_manageable(connection, call.caller, user_id)
        if user_id == call.caller.id:
            raise Refusal("own-user")
        if before["status"] == "disabled":
            return json_response(200, before)
        await connection.execute(_DISABLE, user_id)
        await connection.fetchval(_END_SESSIONS, user_id)
        await end_links(connection, user_id)
        return await _done(connection, call, before)

    return await once(call.services, call.claim, work)


@router.post(
    "/v1/users/{id}/enable", response_model=UserView, responses=refusals("not-found", "grant-exceeds-caller")
)
async def enable_user(user_id: PathId, call: KeyedCall, _body: Empty = NO_MEMBERS) -> Response:
    """Enable a disabled user, who signs in with the password as before.

    Enabling a user again has no effect.
    """

    async def work(connection: Connection) -> Response:
        before = await _require_manageable(connection, call.caller, user_id)
        if before["status"] != "disabled":
            return json_response(200, before)
        await connection.execute(_ENABLE, user_id)
        return await _done(connection, call, before)

    return await once(call.services, call.claim, work)


@router.post(
    "/v1/users/{id}/reset-totp",
    response_model=UserView,
    responses=refusals("not-found", "grant-exceeds-caller"),
)
async def reset_user_totp(user_id: PathId, call: KeyedCall, _body: Empty = NO_MEMBERS) -> Response:
    """Let a user who has lost the authenticator sign in without a one-time code.

    The user's recovery codes end, too.
    """

    async def work(connection: Connection) -> Response:
        before = await _require_manageable(connection, call.caller, user_id)
        await connection.execute(_RESET_TOTP, user_id)
        return await _done(connection, call, before)

    return await once(call.services, call.claim, work)


@router.post(
    "/v1/users/{id}/end-sessions",
    response_model=UserView,
    responses=refusals("not-found", "grant-exceeds-caller"),
)
async def end_user_sessions(user_id: PathId, call: KeyedCall, _body: Empty = NO_MEMBERS) -> Response:
    """End all sessions of a user."""

    async def work(connection: Connection) -> Response:
        shown = await _require_manageable(connection, call.caller, user_id)
        ended = await connection.fetchval(_END_SESSIONS, user_id)
        if ended:
            states = {"sessions": ended}, {"sessions": 0}
            await record_act(connection, call, Change(KIND, user_id, *states))
        return json_response(200, shown)

    return await once(call.services, call.claim, work)


def _require_grantable(caller: Caller, role: str, modes: list[Any], *, reveal: bool) -> None:
    """Raise ``Refusal`` 403 unless the caller has the role, the modes and the scopes of such a user."""
    _require_rank(caller, role, modes)
    if not caller.scopes.issuperset(scopes_of(role, reveal=reveal)):
        raise Refusal("grant-exceeds-caller")


def _require_rank(caller: Caller, role: Any, modes: list[Any]) -> None:
    """Raise ``Refusal`` 403 unless the caller has the role and the modes."""
    if not includes(caller.role, role) or not caller.all_modes.issuperset(modes):
        raise Refusal("grant-exceeds-caller")


async def _require_manageable(connection: Connection, caller: Caller, user_id: str) -> dict[str, Any]:
    """The user as shown, once the caller's turn has come. Raises ``Refusal`` 401, 403 or 404."""
    await require_owner(connection, caller)
    row = await _require(connection, caller, user_id, caller.live)
    shown = show(row)
    _require_rank(caller, shown["role"], shown["modes"])
    return shown


async def _require(connection: Connection, caller: Caller, user_id: str, live: bool) -> asyncpg.Record:
    row = await connection.fetchrow(FIND, user_id, caller.tenant_id, live)
    if row is None:
        raise not_found()
    return row


async def _read(connection: Connection, caller: Caller, user_id: str, modes: list[Any]) -> dict[str, Any]:
    """The user as shown, also if the caller's mode is not among ``modes``."""
    return show(await _require(connection, caller, user_id, modes[-1] == MODES[-1]))


async def _done(
    connection: Connection, call: Call, before: dict[str, Any], modes: list[Any] | None = None
) -> Response:
    """Record the change of a user, and answer with the user after it."""
    after = await _read(connection, call.caller, before["id"], modes or before["modes"])
    await record_act(connection, call, Change(KIND, before["id"], before, after, PERSONAL))
    return json_response(200, after)


def _invitation(request: Request, link: Link) -> dict[str, str]:
    """The members of an invitation: its address is that under which the caller reached this server."""
    scope = request.scope
    base = f"{scope['scheme']}://{request.headers.get('host', '')}{scope.get(PREFIX, '')}"
    return {
        "invitation_url": base + link.path,
        "invitation_expires_at": shown_instant(link.expires_at),
    }
