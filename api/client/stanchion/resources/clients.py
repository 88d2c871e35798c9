"""API clients of a tenant, and the audit log."""

from __future__ import annotations

import builtins
from typing import Literal

from stanchion import records
from stanchion.operations import PAGE_SIZE, AnyTransport, Call, Resource, operation, rows


class Clients(Resource[AnyTransport]):
    """API clients; for clients with the role ``owner``."""

    @operation("POST", "/v1/clients")
    def create(
        self,
        *,
        role: Literal["user", "admin", "owner"],
        scopes: builtins.list[str] | None = None,
        name: str | None = None,
        idempotency_key: str | None = None,
    ) -> Call[records.ClientSecret]:
        """Create a client; the answer contains its secret."""
        chosen = {} if scopes is None else {"scopes": scopes}
        return Call(body={"role": role, "name": name, **chosen}, key=idempotency_key)

    @operation("GET", "/v1/clients/{id}")
    def get(self, id_: str) -> Call[records.ApiClient]:
        """One client."""
        return Call(id_)

    @rows("/v1/clients")
    def list(
        self, *, status: Literal["active", "revoked"] | None = None, page_size: int = PAGE_SIZE
    ) -> Call[records.ApiClient]:
        """All clients of the tenant in this mode."""
        return Call(query={"status": status, "limit": page_size})

    @operation("POST", "/v1/clients/{id}/revoke")
    def revoke(self, id_: str, *, idempotency_key: str | None = None) -> Call[records.ApiClient]:
        """Revoke a client for ever; its tokens end within a second."""
        return Call(id_, body={}, key=idempotency_key)

    @operation("POST", "/v1/clients/{id}/rotate-secret")
    def rotate_secret(
        self, id_: str, *, overlap_hours: int = 0, idempotency_key: str | None = None
    ) -> Call[records.ClientSecret]:
        """Create a new secret. The old one works for ``overlap_hours``; with 0 it ends at once, together with
        all tokens of the client."""
        return Call(id_, body={"overlap_hours": overlap_hours}, key=idempotency_key)


class AuditLog(Resource[AnyTransport]):
    """Who administered what, when, with what effect."""

    @rows("/v1/audit-log")
    def list(
        self,
        *,
        actor: str | None = None,
        act: str | None = None,
        object_id: str | None = None,
        from_: str | None = None,
        to: str | None = None,
        page_size: int = PAGE_SIZE,
    ) -> Call[records.AuditEntry]:
        """All entries, or those of an actor, an act, an object, or the half-open window from ``from_`` to
        ``to``."""
        query = {"actor": actor, "act": act, "object_id": object_id, "from": from_, "to": to}
        return Call(query=query | {"limit": page_size})
