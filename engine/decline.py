"""Decline reasons in order of precedence, each with its ISO 8583 response code (DE39)."""

from __future__ import annotations

from typing import Final

RESPONSE_CODES: Final[dict[str, str]] = {
    "invalid_message": "30",
    "card_not_found": "14",
    "card_lost": "41",
    "card_stolen": "43",
    "card_terminated": "46",
    "card_unactivated": "78",
    "card_suspended": "62",
    "card_expired": "54",
    "expiry_mismatch": "54",
    "cryptogram_invalid": "05",
    "cardholder_blocked": "57",
    "programme_inactive": "57",
    "cvv2_mismatch": "N7",
    "cvv1_mismatch": "05",
    "pin_not_supported": "86",
    "pin_incorrect": "55",
    "authentication_failed": "63",
    "invalid_amount": "13",
    "currency_not_supported": "12",
    "mcc_not_allowed": "57",
    "country_not_allowed": "62",
    "channel_not_allowed": "57",
    "per_txn_cap_exceeded": "61",
    "per_day_count_exceeded": "65",
    "per_day_amount_exceeded": "61",
    "rule_declined": "05",
    "authentication_required": "65",
    "risk_blocked": "59",
    "insufficient_funds": "51",
    "programme_declined": "05",
    "stand_in_declined": "05",
    "decision_deadline_exceeded": "91",
    "system_error": "96",
}
"""Reason to DE39, in the order in which rules are evaluated: the first failing rule names the reason."""

REASONS: Final = tuple(RESPONSE_CODES)

APPROVED: Final = "00"
APPROVED_PARTIALLY: Final = "10"
VERIFIED: Final = "85"
DUPLICATE_CONFLICT: Final = "94"
"""A repeated wire identity with different content."""


def response_code(reason: str, network: str) -> str:
    """DE39 for a decline; a CVV2 mismatch is ``N7`` on Visa and ``05`` on Mastercard, a missing
    authentication ``1A`` on Visa and ``65`` on Mastercard."""
    if reason == "cvv2_mismatch" and network != "visa":
        return "05"
    if reason == "authentication_required" and network == "visa":
        return "1A"
    return RESPONSE_CODES[reason]
