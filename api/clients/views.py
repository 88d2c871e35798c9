"""Request bodies and public representations of API clients."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import asyncpg
from pydantic import AfterValidator, Field

from api.access.credentials import ROLE
from api.http.fields import Id, Instant, Text100, example, shown_instant
from api.http.validation import Input, View
from api.operations.pagination import PageQuery
from engine.limits import CLIENT_SECRET_OVERLAP_HOURS_MAX
from engine.scopes import SCOPES, Mode, Role

SELECT: Final = f"""
    SELECT r.id::text, r.client_id, r.name, r.mode, {ROLE.format("r")}, r.scopes, r.created_at, r.revoked_at,
           CASE WHEN r.previous_secret_expires_at > now() AND r.revoked_at IS NULL
                THEN r.previous_secret_expires_at END AS previous_secret_expires_at
    FROM clients r
"""
FIND: Final = SELECT + " WHERE r.id = $1::uuid AND r.tenant_id = $2 AND r.live = $3"


def _in_order(scopes: list[str]) -> list[str]:
    return [scope for scope in SCOPES if scope in scopes]


Scopes = Annotated[
    list[Literal[SCOPES]],  # type: ignore[valid-type]
    Field(min_length=1, max_length=len(SCOPES)),
    AfterValidator(_in_order),
    example(["cards:read", "cards:write"]),
]
OverlapHours = Annotated[int, Field(ge=0, le=CLIENT_SECRET_OVERLAP_HOURS_MAX)]
Status = Literal["active", "revoked"]


class ClientInput(Input):
    """A new client, in the mode of the caller."""

    name: Annotated[Text100, example("Back office")] | None = None
    """What the client is used for."""
    role: Role
    """`user`; `admin`, who can do more with the same scopes; or `owner`, who also manages clients."""
    scopes: Scopes | None = None
    """By default all scopes of the caller that the role can use, without `cards:reveal`."""


class SecretRotation(Input):
    """How long the old secret stays valid."""

    overlap_hours: OverlapHours = 0
    """Hours in which the old secret still gets tokens. With 0 it ends at once, together with all tokens and
    console sessions of the client."""


class ClientView(View):
    """An API client. Its secret is never shown again."""

    id: Id
    client_id: Annotated[str, example("cl_test_9Xo2pQ0nS0mV3kq1T5uE7g")]
    """The public half of its credentials."""
    name: str | None
    mode: Mode
    role: Role
    scopes: list[str]
    status: Status
    previous_secret_expires_at: Instant | None
    """Until this instant, the secret before the last rotation still works."""
    created_at: Instant
    revoked_at: Instant | None


class ClientSecretView(ClientView):
    """A client with its new secret, which is shown only now."""

    client_secret: Annotated[str, example("sk_Zm9ydHktdHdvLXJhbmRvbS1ieXRlcy1hcmUtZW5vdWdo")]


class ClientsQuery(PageQuery):
    """Filters of the list."""

    status: Status | None = None


def show(row: asyncpg.Record) -> dict[str, Any]:
    """The public representation of a row of ``SELECT``."""
    revoked, expires = row["revoked_at"], row["previous_secret_expires_at"]
    return {
        "id": row["id"],
        "client_id": row["client_id"],
        "name": row["name"],
        "mode": row["mode"],
        "role": row["role"],
        "scopes": row["scopes"],
        "status": "active" if revoked is None else "revoked",
        "previous_secret_expires_at": expires and shown_instant(expires),
        "created_at": shown_instant(row["created_at"]),
        "revoked_at": revoked and shown_instant(revoked),
    }
