"""Transactions: the statements that read them, and their public representation.

The row has the state of a transaction; the journal has the request, the decision with its trace, and the
later history. Reads apply the current time: a hold past its expiry counts as zero, even if the sweeper has
not closed it yet.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any, Final, Literal

import asyncpg
import msgspec

from api.database.object_metadata import COLUMN, shown_metadata
from api.http.fields import Channel, Id, Instant, MerchantMoneyView, ShownAmount, ShownRate, shown_instant
from api.http.validation import View
from api.metadata.inputs import ShownMetadata
from engine.authorization.follow_up import FollowUpRecord
from engine.commands import Advise, Authorize, Present
from engine.currencies import merchant_view
from engine.decision.decide import Decision, decision_view
from engine.decline import APPROVED, RESPONSE_CODES
from engine.ids import Derived
from engine.instant import to_ms, to_text
from engine.money import format_minor
from engine.replies import WireAnswer

Opener = Authorize | Present | Advise
"""Commands that begin a transaction: an authorization, a presentment without authorization, an advice."""

decode_opener = msgspec.json.Decoder(Opener).decode
decode_decision = msgspec.json.Decoder(Decision).decode
_reply = msgspec.json.Decoder(WireAnswer).decode

_OVERDUE: Final = "(h.state = 'held' AND h.expires_at <= now())"
STATUS: Final = f"""CASE WHEN NOT coalesce({_OVERDUE}, false) THEN r.status
    WHEN r.cleared_minor > 0 THEN 'cleared' ELSE 'lapsed' END"""
# The id of a hold is derived from the id of the command that places it (engine.ids.derive).
_HOLD_OF_COMMAND: Final = (
    f"encode(set_byte(uuid_send(id), 14, get_byte(uuid_send(id), 14) # {int(Derived.HOLD)}), 'hex')::uuid"
)
SELECT: Final = f"""
    SELECT r.id::text, r.card_id::text, c.cardholder_id::text, r.programme_id::text, r.kind,
           {STATUS} AS status, r.hold_id::text, r.currency, r.requested_minor, r.approved_minor,
           CASE WHEN {_OVERDUE} THEN 0 ELSE r.held_minor END AS held_minor, r.cleared_minor, r.reversed_minor,
           r.created_at, CASE WHEN {_OVERDUE} THEN h.expires_at ELSE r.updated_at END AS updated_at, {COLUMN},
           c.network, j.command, j.decision, j.reply, h.amount_minor AS lapsed_minor, h.expires_at,
           coalesce({_OVERDUE} OR h.state = 'lapsed', false) AS lapsed,
           (SELECT coalesce(json_agg(json_build_array(e.kind,
                       CASE e.kind WHEN 'increment' THEN e.command::json -> 'amount_minor' END,
                       e.decision::json, floor(extract(epoch FROM e.recorded_at) * 1000)::bigint)
                   ORDER BY e.seq), '[]')
            FROM journal e
            WHERE e.authorization_id = r.id AND e.kind <> 'authorize' AND e.seq <> r.seq
              AND e.decision IS NOT NULL)::text AS followed,
           (SELECT coalesce(json_agg(json_build_array(o.amount_minor,
                       floor(extract(epoch FROM o.expires_at) * 1000)::bigint)
                   ORDER BY o.expires_at, o.id), '[]')
            FROM holds o WHERE o.id <> r.hold_id AND o.state = 'lapsed' AND o.id IN (
                SELECT {_HOLD_OF_COMMAND} FROM (
                    SELECT r.id UNION ALL SELECT (a.command::json ->> 'id')::uuid FROM journal a
                    WHERE a.authorization_id = r.id AND a.kind IN ('increment', 'advise')) placed)
           )::text AS lapsed_before
    FROM transactions r
    JOIN cards c ON c.id = r.card_id
    JOIN journal j ON j.actor_id = r.card_id AND j.seq = r.seq
    LEFT JOIN holds h ON h.id = r.hold_id
"""

Kind = Literal["purchase", "refund", "force_post", "verification"]
Status = Literal["pending", "partially_cleared", "cleared", "reversed", "lapsed", "declined", "posted"]
TransactionEventType = Literal[
    "authorization", "refund", "force_post", "advice", "increment", "reversal", "clearing", "lapse"
]


class StepView(View):
    """One rule of a decision: the value that it saw, and the limit that it compared it with."""

    rule: str
    outcome: Literal["pass", "fail", "skip"]
    observed: str | None
    limit: str | None


class MerchantView(View):
    """The merchant of the transaction."""

    id: str | None
    """The acquirer's id of the merchant (ISO 8583 DE42), if the message had one."""
    name: str
    country: str


class NetworkView(View):
    """The network's data elements of the transaction (ISO 8583 DE32, DE11, DE37, DE48 tag 04, DE38, DE39)."""

    name: Literal["visa", "mastercard"]
    acquirer_id: str
    stan: str
    rrn: str
    network_txn_id: str | None
    approval_code: str | None
    response_code: str


class RiskView(View):
    """The risk score, 0 to 100, and its consequence."""

    score: int
    action: Literal["allow", "review", "block"]


class TransactionEventView(View):
    """One entry in the history of a transaction.

    `amount` is the amount requested, reversed, cleared, or no longer held.
    """

    type: TransactionEventType
    amount: ShownAmount
    occurred_at: Instant
    remark: Literal["declined", "late", "nothing_held", "matched"] = "late"
    """Present only in these cases. `declined`: an increment that was declined; `late`: a clearing that found
    no open hold; `nothing_held`: no hold was left to release or to change; `matched`: the presentment of a
    refund that had been posted already.
    """


class TransactionView(View):
    """A transaction: one for each authorization, refund and force post.

    A force post (presentment without authorization) has no decision, no risk and no channel.
    """

    id: Id
    kind: Kind
    status: Status
    card_id: Id
    cardholder_id: Id
    programme_id: Id
    authorization_id: Id
    hold_id: Id | None
    currency: str
    requested_amount: ShownAmount
    """Like all amounts except `merchant_amount`, in the currency of the card."""
    merchant_amount: MerchantMoneyView
    """The amount that the merchant charged, in its own currency. Without a conversion it is the requested
    amount."""
    conversion_rate: ShownRate | None
    """The network's rate, if it converted `merchant_amount` and stated one."""
    approved_amount: ShownAmount
    held_amount: ShownAmount
    cleared_amount: ShownAmount
    reversed_amount: ShownAmount
    mcc: str
    merchant: MerchantView
    channel: Channel | None
    entry_mode: str | None
    network: NetworkView
    decision: Literal["approved", "declined"] | None
    decline_reason: str | None
    decline_detail: str | None
    """The `reason` of the authorization rule that declined; null for all other reasons."""
    decided_by: Literal["platform", "programme", "stand_in", "network_stand_in"] | None
    """`stand_in`: the platform in place of the programme's endpoint; `network_stand_in`: the network in place
    of the platform, reported by an advice. The trace is that of the platform's own decision, if there is one.
    """
    risk: RiskView | None
    trace: list[StepView]
    events: list[TransactionEventView]
    """The history of the transaction, oldest first."""
    created_at: Instant
    updated_at: Instant
    metadata: ShownMetadata


class LaterCommand(msgspec.Struct, frozen=True, array_like=True):
    """A later command on the transaction, as ``SELECT`` returns it."""

    kind: str
    asked_minor: int | None
    outcome: msgspec.Raw
    """JSON: a ``Decision`` for an increment, otherwise a ``FollowUpRecord``."""
    at_ms: int


_followed = msgspec.json.Decoder(list[LaterCommand]).decode
_lapsed_before = msgspec.json.Decoder(list[tuple[int, int]]).decode
_record = msgspec.json.Decoder(FollowUpRecord).decode


def show(row: asyncpg.Record) -> dict[str, Any]:
    """The public representation of a row of ``SELECT``."""
    opener = decode_opener(row["command"])
    replacement = _replacement(row)
    return {
        **{name: row[name] for name in ("id", "kind", "status", "card_id", "cardholder_id", "programme_id")},
        "authorization_id": row["id"],
        "hold_id": row["hold_id"],
        "currency": row["currency"],
        **{f"{name}_amount": format_minor(row[f"{name}_minor"]) for name in _AMOUNTS},
        **_charged(row, opener),
        "mcc": opener.mcc,
        "merchant": {
            "id": opener.merchant_id if isinstance(opener, Authorize) else None,
            "name": opener.merchant_name,
            "country": opener.merchant_country,
        },
        "channel": None if isinstance(opener, Present) else opener.channel,
        "entry_mode": None if isinstance(opener, Present) else opener.entry_mode,
        "network": _network(row, opener, replacement),
        **_decided(row, opener, replacement),
        "events": _events(row, opener),
        "created_at": shown_instant(row["created_at"]),
        "updated_at": shown_instant(row["updated_at"]),
        "metadata": shown_metadata(row),
    }


def _charged(row: asyncpg.Record, opener: Opener) -> dict[str, Any]:
    """What the merchant charged, and the rate of its conversion."""
    charged = opener.merchant_amount
    if charged is None:
        amount = format_minor(row["requested_minor"])
        return {"merchant_amount": {"amount": amount, "currency": row["currency"]}, "conversion_rate": None}
    return {"merchant_amount": merchant_view(charged), "conversion_rate": charged.rate}


_AMOUNTS: Final = ("requested", "approved", "held", "cleared", "reversed")


def _replacement(row: asyncpg.Record) -> FollowUpRecord | None:
    """The newest advice that replaced the first decision; ``None`` if no advice did."""
    advices = [each for each in _followed(row["followed"]) if each.kind == "advise"]
    records = (_record(each.outcome) for each in reversed(advices))
    return next((record for record in records if record.decided), None)


def _network(row: asyncpg.Record, opener: Opener, replacement: FollowUpRecord | None) -> dict[str, Any]:
    answer = _reply(row["reply"])
    approval_code, response_code = answer.approval_code, answer.response_code
    if isinstance(opener, Advise):
        approval_code = opener.approval_code
    if replacement is not None:
        approval_code, response_code = replacement.approval_code, _response_code(replacement)
    return {
        "name": row["network"],
        "acquirer_id": opener.wire.acquirer_id,
        "stan": opener.wire.stan,
        "rrn": opener.wire.rrn,
        "network_txn_id": opener.wire.network_txn_id,
        "approval_code": approval_code,
        "response_code": response_code,
    }


def _response_code(replacement: FollowUpRecord) -> str:
    return APPROVED if replacement.decided == "approved" else RESPONSE_CODES["stand_in_declined"]


def _decided(row: asyncpg.Record, opener: Opener, replacement: FollowUpRecord | None) -> dict[str, Any]:
    """The effective decision and its explanation: the platform's, the network's, or none."""
    if isinstance(opener, Authorize):
        first = decision_view(decode_decision(row["decision"]))
        return first if replacement is None else first | _decision_of_advice(replacement)
    advised = isinstance(opener, Advise)
    decision = "approved" if isinstance(opener, Advise) and opener.approved else "declined"
    return {
        "decision": decision if advised else None,
        "decline_reason": "stand_in_declined" if advised and decision == "declined" else None,
        "decline_detail": None,
        "decided_by": "network_stand_in" if advised else None,
        "risk": {"score": 0, "action": "allow"} if advised else None,
        "trace": [],
    }


def _decision_of_advice(replacement: FollowUpRecord) -> dict[str, Any]:
    return {
        "decision": replacement.decided,
        "decline_reason": "stand_in_declined" if replacement.decided == "declined" else None,
        "decline_detail": None,
        "decided_by": "network_stand_in",
    }


def _events(row: asyncpg.Record, opener: Opener) -> list[dict[str, Any]]:
    """The history. A lapse that no command has recorded is derived from the expired hold."""
    opening = _event(_first_type(row["kind"], opener), opener.amount_minor, to_ms(row["created_at"]))
    followed = _followed(row["followed"])
    events = [opening, *(_follow_up(each) for each in followed)]
    lapses = list(_lapses_by_time(followed, _lapsed_before(row["lapsed_before"])))
    if row["lapsed"] and not _lapse_recorded(events):
        lapses.append(_event("lapse", row["lapsed_minor"], to_ms(row["expires_at"])))
    # The sort is stable: within an instant, lapses come first, then the journal's order.
    return sorted((*lapses, *events), key=lambda event: str(event["occurred_at"])) if lapses else events


def _lapses_by_time(followed: list[LaterCommand], lapsed: list[tuple[int, int]]) -> Iterator[dict[str, Any]]:
    """Lapses of earlier holds at their expiry. Holds that an ``expire`` command ended before their expiry are
    left out, because the history already has these lapses."""
    commanded = deque(each.at_ms for each in followed if each.kind == "expire")
    for amount_minor, expires_ms in lapsed:
        if commanded and commanded[0] < expires_ms:
            commanded.popleft()
        else:
            yield _event("lapse", amount_minor, expires_ms)


def _first_type(kind: str, opener: Opener) -> TransactionEventType:
    if isinstance(opener, Advise):
        return "advice"
    if kind == "refund":
        return "refund"
    return "force_post" if isinstance(opener, Present) else "authorization"


def _follow_up(followed: LaterCommand) -> dict[str, Any]:
    if followed.kind == "increment":
        declined = decode_decision(followed.outcome).decision == "declined"
        remark = "declined" if declined else None
        return _event("increment", followed.asked_minor or 0, followed.at_ms, remark)
    record = _record(followed.outcome)
    if record.type == "refund":
        return _event("clearing", record.amount_minor, followed.at_ms, record.remark)
    type_: TransactionEventType = "clearing" if record.type == "capture" else record.type
    return _event(type_, record.amount_minor, followed.at_ms, record.remark)


def _lapse_recorded(events: list[dict[str, Any]]) -> bool:
    """Whether a command recorded the lapse of the last hold. A later increment or advice places a new
    hold."""
    for event in reversed(events):
        if event["type"] == "lapse":
            return True
        if event["type"] in {"increment", "advice"} and "remark" not in event:
            return False
    return False


def _event(
    type_: TransactionEventType, amount_minor: int, at_ms: int, remark: str | None = None
) -> dict[str, Any]:
    event = {"type": type_, "amount": format_minor(amount_minor), "occurred_at": to_text(at_ms)}
    return event | ({"remark": remark} if remark else {})
