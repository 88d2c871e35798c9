"""Users of a tenant: the people who sign in to the console."""

from __future__ import annotations

import builtins
from typing import Literal

from stanchion import inputs, records
from stanchion.compat import Unpack
from stanchion.operations import PAGE_SIZE, AnyTransport, Call, Resource, operation, rows


class Users(Resource[AnyTransport]):
    """Users; for clients with the role ``owner``."""

    @operation("POST", "/v1/users")
    def create(
        self,
        *,
        email: str,
        name: str,
        role: Literal["user", "admin", "owner"],
        modes: builtins.list[Literal["test", "live"]] | None = None,
        reveal: bool = False,
        idempotency_key: str | None = None,
    ) -> Call[records.UserInvitation]:
        """Create a user; the answer contains the invitation. By default the user may see this mode."""
        body = {"email": email, "name": name, "role": role, "reveal": reveal}
        return Call(body=body | ({} if modes is None else {"modes": modes}), key=idempotency_key)

    @operation("GET", "/v1/users/{id}")
    def get(self, id_: str) -> Call[records.User]:
        """One user."""
        return Call(id_)

    @rows("/v1/users")
    def list(
        self,
        *,
        status: Literal["invited", "active", "disabled"] | None = None,
        page_size: int = PAGE_SIZE,
    ) -> Call[records.User]:
        """All users who may see this mode."""
        return Call(query={"status": status, "limit": page_size})

    @operation("PATCH", "/v1/users/{id}")
    def update(
        self, id_: str, *, idempotency_key: str | None = None, **change: Unpack[inputs.UserChange]
    ) -> Call[records.User]:
        """Change some members."""
        return Call(id_, body=change, key=idempotency_key)

    @operation("POST", "/v1/users/{id}/invite")
    def invite(self, id_: str, *, idempotency_key: str | None = None) -> Call[records.UserInvitation]:
        """A new invitation, which sets a password, also a forgotten one."""
        return Call(id_, body={}, key=idempotency_key)

    @operation("POST", "/v1/users/{id}/disable")
    def disable(self, id_: str, *, idempotency_key: str | None = None) -> Call[records.User]:
        """Disable a user, whose sessions end at once."""
        return Call(id_, body={}, key=idempotency_key)

    @operation("POST", "/v1/users/{id}/enable")
    def enable(self, id_: str, *, idempotency_key: str | None = None) -> Call[records.User]:
        """Let a disabled user sign in again."""
        return Call(id_, body={}, key=idempotency_key)

    @operation("POST", "/v1/users/{id}/reset-totp")
    def reset_totp(self, id_: str, *, idempotency_key: str | None = None) -> Call[records.User]:
        """Let a user who has lost the authenticator sign in without a one-time code."""
        return Call(id_, body={}, key=idempotency_key)

    @operation("POST", "/v1/users/{id}/end-sessions")
    def end_sessions(self, id_: str, *, idempotency_key: str | None = None) -> Call[records.User]:
        """End all sessions of a user."""
        return Call(id_, body={}, key=idempotency_key)
