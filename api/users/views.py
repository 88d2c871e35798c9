"""Request bodies and public representations of users."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import asyncpg
from pydantic import AfterValidator, ConfigDict, Field, model_validator

from api.http.fields import Email, Id, Instant, Text100, example, shown_instant
from api.http.validation import Input, View, broken
from api.operations.pagination import PageQuery
from engine.scopes import MODES, REVEAL, Mode, Role, default_scopes

TABLE: Final = (
    "(SELECT u.*, m.mode = 'live' AS live, CASE WHEN u.disabled_at IS NOT NULL THEN 'disabled'"
    " WHEN u.last_sign_in_at IS NULL THEN 'invited' ELSE 'active' END AS status"
    " FROM users u CROSS JOIN unnest(u.modes) AS m (mode))"
)
"""The users of each mode."""
SELECT: Final = f"""
    SELECT r.id::text, r.email, r.name, r.role, r.modes, r.reveal, r.status,
           r.totp_sealed IS NOT NULL AS totp_enabled, r.created_at, r.last_sign_in_at, r.disabled_at
    FROM {TABLE} r
"""
FIND: Final = SELECT + " WHERE r.id = $1::uuid AND r.tenant_id = $2 AND r.live = $3"
PERSONAL: Final = frozenset({"email", "name"})
"""Members that the audit log masks."""


def _in_order(modes: list[Mode]) -> list[Mode]:
    return [mode for mode in MODES if mode in modes]


UserEmail = Annotated[Email, AfterValidator(str.lower)]
Modes = Annotated[
    list[Mode],
    Field(min_length=1, max_length=len(MODES)),
    AfterValidator(_in_order),
    example(["test", "live"]),
]
Status = Literal["invited", "active", "disabled"]


class UserInput(Input):
    """A new user."""

    email: UserEmail
    """The sign-in name, and the address by which a user of OpenID Connect is found. Case does not differ."""
    name: Annotated[Text100, example("Ada Lovelace")]
    role: Role
    """`user`; `admin`, who can do more; or `owner`, who also manages clients and users."""
    modes: Modes | None = None
    """The modes that the user may see; by default the mode of the caller."""
    reveal: bool = False
    """Whether the user has the scope `cards:reveal`."""


class UserChange(Input):
    """Parts of a user to be replaced; at least one."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1})

    name: Annotated[Text100, example("Ada Lovelace")] = ""
    role: Role = "user"
    modes: Annotated[Modes, Field(default_factory=list)]
    reveal: bool = False

    @model_validator(mode="after")
    def _require_member(self) -> UserChange:
        if not self.model_fields_set:
            raise broken("missing", "Name at least one member to change.")
        return self


class UserView(View):
    """A person who signs in to the console."""

    id: Id
    email: Annotated[str, example("ada@example.com")]
    name: Annotated[str, example("Ada Lovelace")]
    role: Role
    modes: list[Mode]
    reveal: bool
    status: Status
    """`invited` until the first sign-in."""
    totp_enabled: bool
    """Whether signing in with the password also takes a one-time code."""
    created_at: Instant
    last_sign_in_at: Instant | None
    disabled_at: Instant | None


class UserInvitationView(UserView):
    """A user with an invitation, which is shown only now."""

    invitation_url: Annotated[
        str, example("https://cards.example.com/console/enter/Zm9ydHktdHdvLXJhbmRvbS1ieXRlcy1hcmUtZW5vdWdo")
    ]
    """Give it to the user: it sets a password and signs in, once."""
    invitation_expires_at: Instant


class UsersQuery(PageQuery):
    """Filters of the list."""

    status: Status | None = None


def scopes_of(role: str, *, reveal: bool) -> frozenset[str]:
    """The scopes of a user: all that the role can use, and ``cards:reveal`` if it was given."""
    return frozenset((*default_scopes(role), *((REVEAL,) if reveal else ())))


def show(row: asyncpg.Record) -> dict[str, Any]:
    """The public representation of a row of ``SELECT``."""
    instants = {
        name: row[name] and shown_instant(row[name])
        for name in ("created_at", "last_sign_in_at", "disabled_at")
    }
    members = ("id", "email", "name", "role", "modes", "reveal", "status", "totp_enabled")
    return {name: row[name] for name in members} | instants
