"""Users of the console."""

from __future__ import annotations

from typing import Literal

from stanchion.compat import TypedDict


class User(TypedDict):
    """A person who signs in to the console."""

    id: str
    email: str
    name: str
    role: str
    modes: list[str]
    reveal: bool
    status: Literal["invited", "active", "disabled"]
    totp_enabled: bool
    created_at: str
    last_sign_in_at: str | None
    disabled_at: str | None


class UserInvitation(User):
    """A user with an invitation, which is shown once."""

    invitation_url: str
    invitation_expires_at: str
