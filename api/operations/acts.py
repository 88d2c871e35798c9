"""The audit log: each operation that changes something is an act, named as the operation.

The row is written in the transaction of the act. For acts on cards and programmes, the command carries the
act to the owner, which writes the row in its commit. Refused requests and requests without effect leave no
row.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from actors.ids import new_id
from actors.journal.audit_log import insert
from actors.journal.rows import ActRow
from api.access.permissions import PERMISSIONS
from api.database.pool import Connection
from api.operations.call import Call
from engine.acts import Act, View, changed

UNRECORDED: Final = frozenset({"compute_cvv2"})
"""Operations with a scope for writing that change nothing."""
SIGN_IN: Final = "sign_in"
SIGN_OUT: Final = "sign_out"
OWN_ACTS: Final = ("set_password", "enable_totp", "disable_totp", "renew_recovery_codes", "end_session")
"""Acts of users on their own account, in the console."""
RECORDED: Final = (
    *(
        name
        for name, permission in PERMISSIONS.items()
        if not permission.scope.endswith(":read")
        and not permission.scope.startswith("simulations:")
        and name not in UNRECORDED
    ),
    SIGN_IN,
    SIGN_OUT,
    *OWN_ACTS,
)
"""The acts of the API: operations except reads and simulated traffic, and those of the console."""

_encode = msgspec.json.Encoder().encode


class Party(Protocol):
    """Tenant and mode of an act: a caller, or another object that belongs to one tenant in one mode."""

    @property
    def tenant_id(self) -> str: ...

    @property
    def live(self) -> bool: ...


class Change(NamedTuple):
    """The object of an act, before and after it; ``None`` stands for an object that does not exist."""

    kind: str
    id: str
    before: View | None
    after: View | None
    hidden: Collection[str] = ()
    """Members with personal data, which are masked. Secrets are in neither view."""


def act_of(call: Call) -> Act | None:
    """The act that ``call`` carries out; ``None`` for an operation without a row."""
    if call.operation not in RECORDED:
        return None
    return Act(call.operation, call.caller.id, call.request_id, call.caller.kind)


async def record_act(connection: Connection, call: Call, change: Change) -> None:
    """Record in the connection's transaction that ``call`` makes ``change``; without a difference there is no
    row."""
    act = Act(call.operation, call.caller.id, call.request_id, call.caller.kind)
    await write_act(connection, act, call.caller, change, call.services.clock.now_ms())


async def write_act(connection: Connection, act: Act, party: Party, change: Change, now_ms: int) -> None:
    """``record_act`` for an act that another request than the one of ``act`` finishes, and for those that are
    no operation."""
    before, after = changed(change.before, change.after, change.hidden)
    if before is None and after is None:
        return
    row = ActRow(
        new_id(),
        party.tenant_id,
        party.live,
        now_ms,
        act.actor_kind,
        act.actor,
        act.name,
        change.kind,
        change.id,
        _json(before),
        _json(after),
        act.request_id,
    )
    await insert(connection, row)


def _json(view: dict[str, Any] | None) -> str | None:
    return None if view is None else _encode(view).decode()
