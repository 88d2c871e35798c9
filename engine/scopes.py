"""Roles, modes and scopes of API callers: the closed lists of every permission check.

A client has a role, a mode and some scopes, and a token has at most the scopes of its client. Most scopes are
``resource:read`` or ``resource:write``.
"""

from __future__ import annotations

from typing import Final, Literal, get_args

Role = Literal["user", "admin", "owner"]
Mode = Literal["test", "live"]

ROLES: Final[tuple[Role, ...]] = get_args(Role)
"""From the lowest to the highest: a role may do all that the roles below it may do."""
MODES: Final[tuple[Mode, ...]] = get_args(Mode)

RESOURCES: Final = (
    "programs",
    "card_products",
    "cardholders",
    "cards",
    "transactions",
    "kyc",
    "simulations",
    "webhooks",
    "events",
    "stip",
    "exports",
    "accounts",
    "rules",
    "clients",
    "users",
)
"""Resources with a scope for reading and one for writing."""
REVEAL: Final = "cards:reveal"
"""Show card numbers to their holders. Given by name only, never by default."""
AUDIT: Final = "audit:read"
LINKS: Final = "links:read"
SCOPES: Final[tuple[str, ...]] = (
    *(f"{resource}:{verb}" for resource in RESOURCES for verb in ("read", "write")),
    AUDIT,
    LINKS,
    REVEAL,
)

_LOWEST_ROLES: Final[dict[str, Role]] = {
    AUDIT: "admin",
    LINKS: "admin",
    "clients:read": "owner",
    "clients:write": "owner",
    "users:read": "owner",
    "users:write": "owner",
}
"""The lowest role that can use a scope at all, where that is not ``user``."""


def includes(role: str, least: Role) -> bool:
    """Whether ``role`` is ``least`` or above it. An unknown role is below all others."""
    return role in ROLES and ROLES.index(role) >= ROLES.index(least)


def default_scopes(role: str) -> tuple[str, ...]:
    """The scopes of a client of ``role`` for which none are named: all that the role can use, without
    ``REVEAL``."""
    return tuple(
        scope for scope in SCOPES if scope != REVEAL and includes(role, _LOWEST_ROLES.get(scope, "user"))
    )
