"""The acquirer's side: builds authorization and network management requests.

Used by the simulated network and by load generators. ``tests/engine/iso8583/test_acquirer.py`` checks that
``content`` reads the same values from these messages.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from engine.commands import Channel
from engine.currencies import NUMERIC_BY_CURRENCY, MerchantAmount, merchant_share_minor, rate_of
from engine.iso8583.content import CASH, PURCHASE, REFUND
from engine.iso8583.elements import (
    TAG_AUTHENTICATION,
    TAG_AUTHORIZATION_ID,
    TAG_CVV2,
    TAG_MIT,
    TAG_NETWORK_TXN_ID,
    TAG_PARTIAL,
    TAG_SCENARIO,
    TAG_THREEDS_REFERENCE,
    CardAcceptor,
    read_private,
    retrieval_reference,
    transmission_time,
    write_card_acceptor,
    write_private,
)
from engine.iso8583.message import Message
from engine.limits import WIRE_AMOUNT_MINOR_MAX
from engine.money import CURRENCY_NUMERIC

COUNTRY_NUMERIC: Final = {"IE": "372", "GB": "826", "US": "840"}
"""DE19 by country; messages of other countries have no DE19."""

_ENTRY_CODES: Final = {"contactless": "07", "chip": "05", "magstripe": "90", "manual": "01"}
_CHANNEL_ENTRY_CODES: Final = {"ecommerce": "81", "moto": "01"}
_NO_PIN: Final = "0"
FIRST_OF_CARD: Final = "000"
"""DE23: the sequence number of a chip card among those with its number."""


class Sale(msgspec.Struct, frozen=True, kw_only=True):
    """One authorization as the terminal and the acquirer know it. Contains plain-text secrets; ``repr`` hides
    them."""

    pan: str
    expiry: str | None = None
    """YYMM."""
    amount_minor: int
    currency: str
    mcc: str
    merchant_name: str
    merchant_country: str
    channel: Channel
    city: str = ""
    terminal_id: str = "TERM0001"
    merchant_id: str = "MERCHANT0000001"
    kind: Literal["purchase", "refund"] = "purchase"
    entry_mode: Literal["contactless", "chip", "magstripe", "manual"] | None = None
    mit: bool = False
    partial_allowed: bool = False
    partial_cap_minor: int | None = None
    merchant_amount: MerchantAmount | None = None
    """The amount in the merchant's currency, which the network converts to ``amount_minor``."""
    cvv2: str | None = None
    auth_value: str | None = None
    threeds_ref: str | None = None
    scenario: str | None = None
    track_2: str | None = None
    """DE35, as the terminal has read it."""
    chip: str | None = None
    """DE55."""

    def __repr__(self) -> str:
        return "Sale(****)"


class References(msgspec.Struct, frozen=True):
    """The acquirer's references of one message."""

    acquirer_id: str
    stan: str
    sent_ms: int
    network_txn_id: str | None = None

    @property
    def rrn(self) -> str:
        """DE37."""
        return retrieval_reference(self.sent_ms, self.stan)


def authorization_request(sale: Sale, references: References) -> Message:
    """The 0100 of ``sale``. ``encode`` refuses values that are too long for their field."""
    transmitted_at = transmission_time(references.sent_ms)
    entry = _entry_code(sale)
    fields: dict[int, str] = {
        2: sale.pan,
        3: f"{processing_code(sale)}0000",
        7: transmitted_at,
        11: references.stan,
        12: transmitted_at[4:],
        13: transmitted_at[:4],
        18: sale.mcc,
        22: f"{entry}{_NO_PIN}",
        25: _condition_code(sale, entry),
        32: references.acquirer_id,
        37: references.rrn,
        41: sale.terminal_id,
        42: sale.merchant_id,
        43: write_card_acceptor(CardAcceptor(sale.merchant_name, sale.city, sale.merchant_country)),
    } | _amounts(sale)
    if sale.expiry is not None:
        fields[14] = sale.expiry
    if sale.merchant_country in COUNTRY_NUMERIC:
        fields[19] = COUNTRY_NUMERIC[sale.merchant_country]
    if sale.track_2 is not None:
        fields[35] = sale.track_2
    if sale.chip is not None:
        fields |= {23: FIRST_OF_CARD, 55: sale.chip}
    tags = _private_tags(sale, references)
    if tags:
        fields[48] = write_private(tags)
    return Message("0100", fields)


def network_request(code: str, stan: str, sent_ms: int) -> Message:
    """An 0800 with ``code`` in DE70."""
    return Message("0800", {7: transmission_time(sent_ms), 11: stan, 70: code})


def quoted_authorization_id(response: Message) -> str | None:
    """The issuer's authorization id in DE48 of a response."""
    return read_private(response.fields[48]).get(TAG_AUTHORIZATION_ID) if 48 in response.fields else None


def processing_code(sale: Sale) -> str:
    """The first two digits of DE3."""
    if sale.kind == "refund":
        return REFUND
    return CASH if sale.channel == "atm" else PURCHASE


def _entry_code(sale: Sale) -> str:
    """First two digits of DE22; ``00``: entry mode not specified."""
    if sale.mit:
        return "10"
    if sale.entry_mode is not None:
        return _ENTRY_CODES[sale.entry_mode]
    return _CHANNEL_ENTRY_CODES.get(sale.channel, "00")


def _condition_code(sale: Sale, entry: str) -> str:
    """DE25. Determines the channel where DE22 alone would imply another one."""
    if sale.channel in ("ecommerce", "moto"):
        return "59" if sale.channel == "ecommerce" else "08"
    return {"01": "71", "10": "05"}.get(entry, "00")


def in_merchant_currency(sale: Sale, amount_minor: int) -> int:
    """``amount_minor`` as the terminal sees it: its share of the merchant amount, if there is one."""
    if sale.merchant_amount is None:
        return amount_minor
    return merchant_share_minor(amount_minor, sale.merchant_amount.amount_minor, sale.amount_minor)


def _amounts(sale: Sale) -> dict[int, str]:
    """DE4 and DE49, and for a converted sale DE6, DE10 and DE51."""
    billed, currency = f"{sale.amount_minor:012d}", CURRENCY_NUMERIC.get(sale.currency, sale.currency)
    merchant = sale.merchant_amount
    if merchant is None:
        return {4: billed, 49: currency}
    return {
        4: f"{merchant.amount_minor:012d}",
        6: billed,
        10: rate_of(merchant, sale.amount_minor, sale.currency),
        49: NUMERIC_BY_CURRENCY[merchant.currency],
        51: currency,
    }


def _terminal_cap_minor(sale: Sale, cap_minor: int) -> int:
    """The cap in the terminal's currency, in which it can have more digits than DE48 tag 07 has places."""
    return min(in_merchant_currency(sale, cap_minor), WIRE_AMOUNT_MINOR_MAX)


def _private_tags(sale: Sale, references: References) -> dict[str, str]:
    cap = (
        "" if sale.partial_cap_minor is None else f"{_terminal_cap_minor(sale, sale.partial_cap_minor):012d}"
    )
    tags = {
        TAG_CVV2: sale.cvv2,
        TAG_AUTHENTICATION: sale.auth_value,
        TAG_THREEDS_REFERENCE: sale.threeds_ref,
        TAG_NETWORK_TXN_ID: references.network_txn_id,
        TAG_MIT: "MIT" if sale.mit else None,
        TAG_PARTIAL: cap if sale.partial_allowed else None,
        TAG_SCENARIO: sale.scenario,
    }
    return {tag: value for tag, value in tags.items() if value is not None}
