"""Roles, modes and scopes of API callers: the closed lists of every permission check.

A scope is ``resource:read`` or ``resource:write``; a client has a role, a mode and some scopes, and a token
has at most the scopes of its client.
"""

from __future__ import annotations

from typing import Final, Literal, get_args

Role = Literal["user", "admin"]
Mode = Literal["test", "live"]

ROLES: Final[tuple[Role, ...]] = get_args(Role)
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
    "accounts",
)
SCOPES: Final[tuple[str, ...]] = tuple(
    f"{resource}:{verb}" for resource in RESOURCES for verb in ("read", "write")
)
