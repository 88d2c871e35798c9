"""API clients and the audit log."""

from __future__ import annotations

from typing import Any

from stanchion.compat import TypedDict


class ApiClient(TypedDict):
    """An API client; its secret is not readable."""

    id: str
    client_id: str
    name: str | None
    mode: str
    role: str
    scopes: list[str]
    status: str
    previous_secret_expires_at: str | None
    created_at: str
    revoked_at: str | None


class ClientSecret(ApiClient):
    """A client with its new secret, which is shown once."""

    client_secret: str


class Actor(TypedDict):
    """Who acted: a client or a user by its id, or an operator by name."""

    kind: str
    id: str
    name: str | None


class ActObject(TypedDict):
    """The object of an act."""

    kind: str
    id: str | None


class AuditEntry(TypedDict):
    """One administrative act, with the members that it changed."""

    id: str
    recorded_at: str
    actor: Actor
    act: str
    object: ActObject
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    request_id: str
