"""Card verification values: three digits that prove knowledge of the printed card, its stripe or its chip.

One algorithm serves CVV, CVC, iCVV, CVV2 and CVC2 (Visa Payment Technology Standards; Mastercard uses the
same): encrypt the number, the expiry and a service code under a double-length DES key, and keep the first
three decimal digits. The cipher is an argument, because only ``actors.vault`` handles keys and ciphers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

EncryptBlock = Callable[[bytes, bytes], bytes]
"""``(key, block) -> block``: two-key triple DES of one 8-byte block under a 16-byte key; equal halves make
it single DES."""

CVV2_SERVICE_CODE: Final = "000"
"""Printed values use a service code that no magnetic stripe has, so one cannot be derived from the other."""

ICVV_SERVICE_CODE: Final = "999"
"""The chip's copy of track 2 has a value of its own, so a stripe made from it is detected."""


def cvv2(pan: str, exp_year: int, exp_month: int, cvk: bytes, encrypt: EncryptBlock) -> str:
    """The printed verification value of a card: three digits; ``cvk`` is the 16-byte pair of verification
    keys."""
    return verification_value(pan, f"{exp_year % 100:02d}{exp_month:02d}", CVV2_SERVICE_CODE, cvk, encrypt)


def verification_value(pan: str, expiry: str, service_code: str, cvk: bytes, encrypt: EncryptBlock) -> str:
    """Three digits from up to 19 digits of PAN, four of expiry and three of service code."""
    data = bytes.fromhex((pan + expiry + service_code).ljust(32, "0"))
    first = encrypt(cvk[:8] * 2, data[:8])
    mixed = bytes(left ^ right for left, right in zip(first, data[8:], strict=True))
    result = encrypt(cvk, mixed).hex()
    decimal = [digit for digit in result if digit <= "9"]
    # Sixteen hexadecimal digits hold fewer than three decimal ones about once in ten million; the
    # algorithm then maps a-f to 0-5.
    mapped = [chr(ord(digit) - 49) for digit in result if digit > "9"]
    return "".join((decimal + mapped)[:3])
