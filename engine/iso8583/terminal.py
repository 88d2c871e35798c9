"""The terminal's side: the EMV data (DE55) of a simulated chip card.

The data are what a terminal sends for an online authorization without a cardholder verification. The cards
have no chip keys, so the application cryptogram (9F26) is a hash of the sale and not an EMV cryptogram; an
edge whose policy verifies cryptograms refuses it.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

from engine.instant import to_datetime
from engine.iso8583.acquirer import COUNTRY_NUMERIC, References, Sale, processing_code
from engine.iso8583.emv_tlv import write_chip
from engine.money import CURRENCY_NUMERIC
from engine.pan import Masked

VISA: Final = "A0000000031010"
MASTERCARD: Final = "A0000000041010"

_ISSUER_DATA: Final = "06010A03A00000"
"""Issuer application data in Visa's form: key index 1, cryptogram version 10, no verification done."""
_NO_VERIFICATION: Final = "1F0302"
_TRANSACTION_COUNTERS: Final = 65_536


def chip_data(sale: Sale, references: References) -> Masked:
    """The DE55 of ``sale``; a function of its arguments, so a message can be built again."""
    # The unpredictable number is shown in traces, so it must not depend on the card number.
    seed = blake2b(f"{references.acquirer_id}{references.rrn}".encode("ascii")).hexdigest().upper()
    return write_chip(
        (
            ("9F26", seed[:16]),  # application cryptogram
            ("9F27", "80"),  # cryptogram information: online authorization
            ("9F10", _ISSUER_DATA),
            ("9F37", seed[16:24]),  # unpredictable number
            ("9F36", f"{int(references.stan) % _TRANSACTION_COUNTERS:04X}"),
            ("95", "0000000000"),
            ("9A", to_datetime(references.sent_ms).strftime("%y%m%d")),
            ("9C", processing_code(sale)),
            ("9F02", f"{sale.amount_minor:012d}"),
            ("5F2A", CURRENCY_NUMERIC.get(sale.currency, sale.currency).zfill(4)),
            ("82", "1980"),
            ("9F1A", COUNTRY_NUMERIC.get(sale.merchant_country, "").zfill(4)),
            ("9F03", "0" * 12),
            ("9F33", "E0B8C8"),
            ("9F34", _NO_VERIFICATION),
            ("9F35", "22"),
            ("84", VISA if sale.pan[:1] == "4" else MASTERCARD),
            ("5F34", "00"),
        )
    )
