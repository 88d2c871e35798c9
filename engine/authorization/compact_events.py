"""The data of events that the journal row of a plain authorization implies.

Such an event is stored without its data. ``event_data`` makes the exact JSON that the engine published
(``engine.authorization.events``); the database function of the same name does so in SQL
(``ops/migrations/0043_compact_delegated.sql``).
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from engine.decision.compact_delegated import decided_by
from engine.decision.compact_layout import StoredRow
from engine.decision.compact_reading import command_values, decision_values, named_decider
from engine.ids import Derived, derive
from engine.instant import DAY_MS, to_text
from engine.money import format_minor

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode
_KINDS: Final = {
    "authorization.decided": Derived.EVENT_FIRST,
    "ledger.hold.created": Derived.EVENT_SECOND,
}
DERIVED_EVENTS: Final = {"authorization.decided": "D", "ledger.hold.created": "H"}
"""Types of the events that a compact journal row implies, unless the merchant's currency is another one, and
the code under which each is stored."""
TYPE_OF_CODE: Final = {code: type_ for type_, code in DERIVED_EVENTS.items()}
PAIR: Final = "P"
"""The code of a row that stands for both events of an approval. Its id is that of the first."""


def decision_of(event_id: str, event_type: str) -> str:
    """The id of the authorization whose decision published the event."""
    return derive(event_id, _KINDS[event_type])


def events_of_pair(row_id: str) -> list[tuple[str, str]]:
    """Type and id of the two events of a row with the code ``PAIR``."""
    authorization_id = derive(row_id, Derived.EVENT_FIRST)
    return [(type_, derive(authorization_id, kind)) for type_, kind in _KINDS.items()]


def event_data(event_type: str, row: StoredRow, programme_id: str, account_id: str | None) -> str:
    """The data of an event of ``row``, a compact one. ``programme_id`` and ``account_id`` are the card's."""
    assert row.inputs is not None, "compact rows are decisions"
    assert row.decision is not None, "compact rows are decisions"
    assert row.authorization_id is not None, "compact rows are decisions"
    command, decision = command_values(row.command), decision_values(row.decision)
    inputs, reply = _decode(row.inputs), _decode(row.reply)
    make = _decided if event_type == "authorization.decided" else _hold_created
    ids = {"hold_id": derive(row.authorization_id, Derived.HOLD), "authorization_id": row.authorization_id}
    ids |= {"card_id": row.actor_id, "programme_id": programme_id, "account_id": account_id or ""}
    return _encode(make(ids, command, inputs, decision, reply, row.recorded_at_ms)).decode()


def _decided(
    ids: dict[str, str], command: Any, _inputs: Any, decision: Any, reply: Any, _now_ms: int
) -> dict[str, Any]:
    reason = reply[3] if len(reply) > 3 else None
    return {
        "authorization_id": ids["authorization_id"],
        "card_id": ids["card_id"],
        "programme_id": ids["programme_id"],
        "amount": format_minor(command[5]),
        "currency": command[6],
        "decision": "declined" if reason else "approved",
        "approved_amount": format_minor(reply[2]),
        "decided_by": decided_by(named_decider(decision)),
        "risk": {"score": decision[0], "action": decision[1] or "allow"},
        "hold_id": None if decision[3] is None else ids["hold_id"],
        "network_txn_id": command[4],
        **({"decline_reason": reason} if reason else {}),
    }


def _hold_created(
    ids: dict[str, str], command: Any, inputs: Any, decision: Any, reply: Any, now_ms: int
) -> dict[str, Any]:
    held_minor = inputs[7] + reply[2]
    return {
        "hold_id": ids["hold_id"],
        "account_id": ids["account_id"],
        "authorization_id": ids["authorization_id"],
        "card_id": ids["card_id"],
        "amount": format_minor(reply[2]),
        "asset": command[6],
        "held": format_minor(held_minor),
        "available": format_minor(inputs[6] - held_minor),
        "expires_at": to_text(now_ms + decision[3] * DAY_MS),
        "occurred_at": to_text(now_ms),
    }
