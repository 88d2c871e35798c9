"""Cryptography of card secrets: look-up digests and sealing of card numbers, CVV2 values.

The vault holds the keys. This module defines the key purposes, so the API, which issues cards, and the edge,
which reads card numbers on the wire, use the same ones.
"""

from __future__ import annotations

import hmac
from typing import Final, Literal

from actors.vault import Vault, tdes_block
from engine.cvv import ICVV_SERVICE_CODE, cvv2, verification_value
from engine.iso8583.track2 import SERVICE_CODE, write_track_2
from engine.pan import Masked, Pan

LOOKUP: Final = "pan-lookup"
SEAL: Final = "pan"
FINGERPRINT: Final = "wire-fingerprint"


class CardSecrets:
    """Card secrets under the vault's keys. CVV2 values are computed when needed and never stored."""

    def __init__(self, vault: Vault) -> None:
        self._vault = vault
        self.fingerprint_key: Final = vault.digest(FINGERPRINT, b"")
        """Key of ``engine.iso8583.identity.fingerprint``."""

    def digest(self, pan: str) -> bytes:
        """The keyed hash of a number, for look-ups (``pans.digest``)."""
        return self._vault.digest(LOOKUP, pan.encode("ascii"))

    def seal(self, card_id: str, pan: str) -> bytes:
        """The encrypted number (``pans.sealed``), bound to the card's id."""
        return self._vault.seal(SEAL, pan.encode("ascii"), card_id.encode("ascii"))

    def open(self, card_id: str, sealed: bytes) -> Pan:
        """The number of a card. Raises ``VaultError`` if ``sealed`` belongs to another card or was
        altered."""
        return Pan(self._vault.open(SEAL, sealed, card_id.encode("ascii")).decode("ascii"))

    def cvv2(self, pan: str, exp_year: int, exp_month: int, generation: str) -> str:
        """The three digits printed on the card, for the card's ``cvk_generation``."""
        return cvv2(pan, exp_year, exp_month, self._vault.cvk_pair(generation), tdes_block)

    def track_value(self, pan: str, exp_year: int, exp_month: int, service_code: str, generation: str) -> str:
        """The three digits in track 2: the CVV1 for the card's service code, the iCVV for
        ``ICVV_SERVICE_CODE``."""
        expiry = f"{exp_year % 100:02d}{exp_month:02d}"
        return verification_value(pan, expiry, service_code, self._vault.cvk_pair(generation), tdes_block)

    def track_2(self, pan: str, exp_year: int, exp_month: int, generation: str) -> Masked:
        """The magnetic stripe of a card."""
        return self._track(pan, exp_year, exp_month, SERVICE_CODE, generation)

    def chip_track_2(self, pan: str, exp_year: int, exp_month: int, generation: str) -> Masked:
        """The chip's copy of track 2 (EMV tag 57), which a terminal sends in DE35."""
        return self._track(pan, exp_year, exp_month, ICVV_SERVICE_CODE, generation)

    def _track(self, pan: str, exp_year: int, exp_month: int, service_code: str, generation: str) -> Masked:
        value = self.track_value(pan, exp_year, exp_month, service_code, generation)
        return write_track_2(pan, f"{exp_year % 100:02d}{exp_month:02d}", value)

    def check_cvv2(
        self, presented: str | None, pan: str, exp_year: int, exp_month: int, generation: str
    ) -> Literal["absent", "match", "mismatch"]:
        """Whether ``presented`` is the card's CVV2. Compares in constant time."""
        if presented is None:
            return "absent"
        expected = self.cvv2(pan, exp_year, exp_month, generation)
        return "match" if hmac.compare_digest(presented.encode(), expected.encode()) else "mismatch"

    def __repr__(self) -> str:
        return "CardSecrets()"
