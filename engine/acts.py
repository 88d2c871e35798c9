"""Administrative acts: who does what, and the members of an object that an act changes.

A row of the audit log holds neither secrets nor personal data: ``hidden`` members are masked.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final, Literal

import msgspec

MASK: Final = "***"
"""Stands for a value that the audit log does not keep."""
_ADDRESSES: Final = frozenset({"url", "decision_url"})
"""Members with addresses. Their queries may carry credentials."""
_UNLISTED: Final = frozenset({"updated_at"})
"""Members that follow from the act itself."""

OPERATOR_ACTS: Final = (
    "create_client",
    "revoke_client",
    "create_user",
    "create_sign_in_link",
    "erase_kyc_check",
    "read_kyc_data",
    "rewrap_kyc_keys",
    "reseal_secrets",
    "migrate_database",
    "restart_processes",
    "drain_node",
    "sign_off_link",
    "sign_on_link",
    "set_authentication_key",
    "remove_authentication_key",
    "show_test_cards",
)
"""Acts of operators, on the command line."""

View = Mapping[str, Any]
ActorKind = Literal["client", "user"]
"""Who acts through the API: an API client, or a user in the console."""


class Act(msgspec.Struct, frozen=True):
    """An act that a caller asks for: it travels with the caller's command, and its row commits with it."""

    name: str
    """The operation of the API, for example ``update_card``."""
    actor: str
    """The id of the client or of the user."""
    request_id: str
    actor_kind: ActorKind = "client"


def changed(
    before: View | None, after: View | None, hidden: Collection[str] = ()
) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    """The members of ``before`` and ``after`` that differ; ``None`` if none does. An object that does not
    exist is ``None``, and differs in all members of the other side."""
    names = [
        name
        for name in {**(before or {}), **(after or {})}
        if name not in _UNLISTED and (before is None or after is None or before.get(name) != after.get(name))
    ]
    if not names:
        return None, None
    return _shown(before, names, hidden), _shown(after, names, hidden)


def _shown(view: View | None, names: list[str], hidden: Collection[str]) -> dict[str, Any] | None:
    if view is None:
        return None
    return {name: _member(name, view.get(name), hidden) for name in names}


def _member(name: str, value: Any, hidden: Collection[str]) -> Any:
    if name in hidden:
        return None if value is None else MASK
    if name in _ADDRESSES and isinstance(value, str) and "?" in value:
        return f"{value.partition('?')[0]}?{MASK}"
    return value
