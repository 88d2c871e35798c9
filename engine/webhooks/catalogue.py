"""The catalogue of event types: meaning, status and JSON Schema of the data (``ops/docs/WEBHOOKS.md``).

A *live* type has a producer. A *planned* one has its final schema and accepts subscriptions, but no release
publishes it yet. Types of gateway mode are live, and are published only for programmes in that mode.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, get_args

from engine.decline import REASONS
from engine.rules.model import Scope as RuleScope
from engine.rules.model import State as RuleState
from engine.webhooks.schemas import (
    AMOUNT,
    CONTROL,
    CONVERSION_RATE,
    CURRENCY,
    ID,
    INSTANT,
    MCC,
    MERCHANT,
    MERCHANT_AMOUNT,
    MERCHANT_CURRENCY,
    METADATA,
    SIGNED_AMOUNT,
    TEXT,
    Schema,
    array,
    choice,
    described,
    number,
    or_null,
    record,
)

ALL_TYPES: Final = "*"
"""In a subscription: every type, including later ones."""
RULE_STATES: Final = get_args(RuleState)
RULE_SCOPES: Final = get_args(RuleScope)


@dataclass(frozen=True)
class EventType:
    """One type: ``schema`` describes ``data``, not the envelope."""

    type: str
    status: Literal["live", "planned"]
    description: str
    schema: Schema


_CONVERTED: Final = {
    "merchant_amount": described(
        record({"amount": MERCHANT_AMOUNT, "currency": MERCHANT_CURRENCY}),
        "If the network converted the amount: what the merchant charges, in its own currency.",
    ),
    "conversion_rate": described(
        or_null(CONVERSION_RATE),
        "The network's rate, beside `merchant_amount`; null if the network stated none.",
    ),
}
_DECIDED: Final = record(
    {
        "authorization_id": described(
            ID, "The requested authorization, or the one that an increment raises."
        ),
        "card_id": ID,
        "programme_id": ID,
        "amount": described(AMOUNT, "The requested amount."),
        "currency": described(
            {"type": "string", "pattern": "^([A-Z]{3}|[0-9]{3})$"},
            "ISO 4217: alphabetic for the currencies of cards, the received numeric code for any other.",
        ),
        "decision": choice("approved", "declined"),
        "approved_amount": described(
            AMOUNT, "Smaller than the amount for a partial approval; 0.00 on declines."
        ),
        "decided_by": described(
            choice("platform", "programme", "stand_in", "network_stand_in"),
            "`stand_in`: this platform instead of the programme's endpoint. `network_stand_in`: the network"
            " instead of this platform.",
        ),
        "risk": record({"score": number(0, 100), "action": choice("allow", "review", "block")}),
        "hold_id": or_null(ID),
        "network_txn_id": or_null(TEXT),
    },
    {
        "decline_reason": described(choice(*REASONS), "On declines."),
        "decline_detail": described(TEXT, "The reason of the authorization rule that declined."),
        "operation": described(
            {"const": "increment"}, "If the request was to raise an existing authorization."
        ),
        "supersedes": described(
            ID, "If the network decided otherwise later: the event whose decision is no longer valid."
        ),
        **_CONVERTED,
    },
)
_HOLD_CREATED: Final = record(
    {
        "hold_id": ID,
        "account_id": ID,
        "authorization_id": ID,
        "card_id": ID,
        "amount": AMOUNT,
        "asset": CURRENCY,
        "held": described(AMOUNT, "The total held amount of the account, as of this event."),
        "available": described(SIGNED_AMOUNT, "As of this event."),
        "expires_at": INSTANT,
        "occurred_at": INSTANT,
    }
)
_HOLD_RELEASED: Final = record(
    {
        "hold_id": ID,
        "account_id": ID,
        "authorization_id": ID,
        "amount": AMOUNT,
        "asset": CURRENCY,
        "available": described(SIGNED_AMOUNT, "As of this event."),
        "occurred_at": INSTANT,
    }
)
_HOLD_CAPTURED: Final = record(
    {
        "hold_id": ID,
        "account_id": ID,
        "authorization_id": ID,
        "transfer_id": ID,
        "settlement_account_id": ID,
        "amount": AMOUNT,
        "asset": CURRENCY,
        "available": described(SIGNED_AMOUNT, "As of this event."),
        "occurred_at": INSTANT,
    }
)
_ENTRY_POSTED: Final = record(
    {
        "entry_id": ID,
        "account_id": ID,
        "authorization_id": or_null(ID),
        "direction": described(choice("debit", "credit"), "Seen from the card's account."),
        "amount": AMOUNT,
        "asset": CURRENCY,
        "available": described(SIGNED_AMOUNT, "As of this event."),
        "occurred_at": INSTANT,
    },
    # Events of earlier releases have no transfer id.
    {"transfer_id": ID},
)
_CARD: Final = record(
    {
        "id": ID,
        "programme_id": ID,
        "card_product_id": ID,
        "cardholder_id": ID,
        "pan_ref": TEXT,
        "last4": {"type": "string", "pattern": "^[0-9]{4}$"},
        "iin": {"type": "string", "pattern": "^[0-9]{6,8}$"},
        "exp_month": number(1, 12),
        "exp_year": number(2000, 9999),
        "state": choice("unactivated", "active", "suspended", "terminated", "lost", "stolen"),
        "state_reason": or_null(TEXT),
        "controls": array(CONTROL),
        "funding_account_id": or_null(ID),
        "cvk_generation": TEXT,
        "network": choice("visa", "mastercard"),
        "currency": CURRENCY,
        "replaces": described(or_null(ID), "The card that this one replaces."),
        "replaced_by": described(or_null(ID), "The card that replaces this one."),
        "created_at": INSTANT,
        "external_ref": or_null(TEXT),
        "metadata": METADATA,
    }
)
_CARD_REPLACED: Final = record(
    {
        "card_id": described(ID, "The replaced card."),
        "replaced_by": described(ID, "Its replacement, on the same account."),
        "reason": choice("lost", "stolen", "damaged", "expired"),
        "state": described(choice("lost", "stolen", "terminated"), "The final state of the replaced card."),
        "programme_id": ID,
        "cardholder_id": ID,
        "occurred_at": INSTANT,
    }
)
_CARD_PRODUCT: Final = record(
    {
        "id": ID,
        "programme_id": ID,
        "name": TEXT,
        "network": choice("visa", "mastercard"),
        "currency": CURRENCY,
        "form_factor": choice("virtual", "physical"),
        "iin": {"type": "string", "pattern": "^[0-9]{6,8}$"},
        "control_defaults": array(CONTROL),
        "kyc_flow": or_null(TEXT),
        "status": choice("active", "retired"),
        "created_at": INSTANT,
        "external_ref": or_null(TEXT),
        "metadata": METADATA,
    }
)
_CARDHOLDER: Final = {
    "cardholder_id": ID,
    "programme_id": ID,
    "status": choice("active", "blocked", "closed"),
    "kyc_state": or_null(choice("pending", "in_review", "passed", "failed", "expired")),
    "occurred_at": INSTANT,
}
_PROGRAMME: Final = record(
    {
        "programme_id": ID,
        "version": described(number(1), "Rises by exactly 1 with each change of the programme."),
        "changed": described(
            array(TEXT), "The names of the changed members; read the programme for their values."
        ),
        "occurred_at": INSTANT,
    }
)
_RULE: Final = record(
    {
        "rule_id": ID,
        "version": described(number(1), "The newest version of the rule."),
        "state": choice(*RULE_STATES),
        "scope": record({"type": choice(*RULE_SCOPES), "id": ID}),
        "occurred_at": INSTANT,
    }
)
_ENDPOINT_TESTED: Final = record({"endpoint_id": ID, "occurred_at": INSTANT})
_OUTAGE_FINISHED: Final = record({"programme_id": ID, "ended_at": INSTANT})
_INSTRUCTION: Final = {
    "authorization_id": ID,
    "card_id": ID,
    "amount": AMOUNT,
    "currency": CURRENCY,
    "direction": choice("debit", "credit"),
    "mcc": MCC,
    "merchant": MERCHANT,
    "network_ref": or_null(TEXT),
    "occurred_at": INSTANT,
}
_POSTING_ISSUED: Final = record(
    {"type": choice("authorization", "increment", "refund"), "approval_code": or_null(TEXT)} | _INSTRUCTION,
    _CONVERTED,
)
_POSTING_RELEASED: Final = record(
    {
        "authorization_id": ID,
        "card_id": ID,
        "amount": described(AMOUNT, "The amount that this event alone releases."),
        "remaining_amount": described(AMOUNT, "The open amount of the authorization, as of this event."),
        "currency": CURRENCY,
        "direction": described(choice("debit", "credit"), "Opposite to that of the instruction."),
        "network_ref": or_null(TEXT),
        "occurred_at": INSTANT,
    }
)
_POSTING_CREATED: Final = record(
    _INSTRUCTION
    | {
        "authorization_id": or_null(ID),
        "hold_id": described(or_null(ID), "Always null in gateway mode."),
        "arn": or_null(TEXT),
        "sequence": described(number(1), "The number of the presentment within its ARN."),
    },
    _CONVERTED,
)
_CLEARED: Final = record(
    {
        "transaction_id": ID,
        "authorization_id": or_null(ID),
        "card_id": ID,
        "amount": AMOUNT,
        "currency": CURRENCY,
        "direction": choice("debit", "credit"),
        "arn": TEXT,
        "sequence": number(1),
        "final": {"type": "boolean"},
        "occurred_at": INSTANT,
    }
)
_EXCEPTION: Final = record(
    {
        "card_id": or_null(ID),
        "reason": choice("authorization_unknown", "amount_exceeded", "currency_differs", "late"),
        "amount": AMOUNT,
        "currency": CURRENCY,
        "arn": TEXT,
        "sequence": number(1),
        "network_ref": or_null(TEXT),
        "occurred_at": INSTANT,
    }
)

_TYPES: Final = (
    EventType("authorization.decided", "live", "An authorization was decided.", _DECIDED),
    EventType(
        "authorization.posting_instruction.issued",
        "live",
        "Gateway mode: an approval, full or partial, is to be posted to the programme's own ledger.",
        _POSTING_ISSUED,
    ),
    EventType(
        "authorization.posting_instruction.released",
        "live",
        "Gateway mode: a part of an issued amount will not be presented: it was reversed, or the final"
        " presentment was for less.",
        _POSTING_RELEASED,
    ),
    EventType(
        "authorization.stip_outage.finished",
        "live",
        "A programme's decision endpoint gave its first usable answer after an outage with stand-in.",
        _OUTAGE_FINISHED,
    ),
    EventType("authorization_rule.created", "live", "An authorization rule was created.", _RULE),
    EventType(
        "authorization_rule.updated",
        "live",
        "An authorization rule has a new version or a new state.",
        _RULE,
    ),
    EventType("card.created", "live", "A card was issued.", _CARD),
    EventType(
        "card.replaced",
        "live",
        "A card was replaced; `card.updated` of the replaced card and `card.created` of its replacement have"
        " the same cause.",
        _CARD_REPLACED,
    ),
    EventType("card.updated", "live", "The state, the controls or the metadata of a card changed.", _CARD),
    EventType("card_product.created", "live", "A card product was created.", _CARD_PRODUCT),
    EventType("card_product.retired", "live", "A card product was retired.", _CARD_PRODUCT),
    EventType(
        "card_product.updated",
        "live",
        "The reference or the metadata of a card product changed.",
        _CARD_PRODUCT,
    ),
    EventType("cardholder.created", "live", "A cardholder was created.", record(_CARDHOLDER)),
    EventType(
        "cardholder.erased",
        "live",
        "A cardholder's personal data were erased; the record and its id remain.",
        record(_CARDHOLDER),
    ),
    EventType(
        "cardholder.updated",
        "live",
        "A cardholder changed; the event names the changed members and has no personal data.",
        record(_CARDHOLDER | {"changed": array(TEXT)}),
    ),
    EventType(
        "clearing.exception.raised",
        "planned",
        "A presentment could not be matched to its authorization.",
        _EXCEPTION,
    ),
    EventType(
        "clearing.posting_instruction.created",
        "live",
        "Gateway mode: a presentment is to be posted to the programme's own ledger.",
        _POSTING_CREATED,
    ),
    EventType("ledger.entry.posted", "live", "Money was posted without a hold.", _ENTRY_POSTED),
    EventType("ledger.hold.captured", "live", "A hold, or a part of it, was captured.", _HOLD_CAPTURED),
    EventType(
        "ledger.hold.created", "live", "A hold was placed for an approved authorization.", _HOLD_CREATED
    ),
    EventType("ledger.hold.released", "live", "A hold was released after a reversal.", _HOLD_RELEASED),
    EventType("programme.closed", "live", "A programme was closed.", _PROGRAMME),
    EventType("programme.created", "live", "A programme was created.", _PROGRAMME),
    EventType(
        "programme.stip_policy.updated", "live", "The stand-in policy of a programme changed.", _PROGRAMME
    ),
    EventType("programme.suspended", "live", "A programme was suspended.", _PROGRAMME),
    EventType("programme.updated", "live", "A programme changed.", _PROGRAMME),
    EventType("transaction.cleared", "planned", "A transaction in managed mode was cleared.", _CLEARED),
    EventType(
        "webhook_endpoint.tested",
        "live",
        "A test of a webhook endpoint was requested; only that endpoint gets it, whatever its subscription.",
        _ENDPOINT_TESTED,
    ),
)

CATALOGUE: Final[dict[str, EventType]] = {entry.type: entry for entry in _TYPES}
"""All types by name, in the order of their names."""

assert list(CATALOGUE) == sorted(CATALOGUE)
