"""Card cryptography in software, under the keys that the vault derives from the master key."""

from __future__ import annotations

import hmac
from collections.abc import Sequence

from actors.network.card_secrets import CardSecrets
from actors.vault import mac_of
from engine.cvv import ICVV_SERVICE_CODE
from engine.iso8583.cryptography import CardKeys, Verdict
from engine.iso8583.emv_tlv import TlvObject
from engine.iso8583.track2 import SERVICE_CODE, Track2


class SoftwareCryptography:
    """Implements ``engine.iso8583.cryptography.Cryptography``. It verifies tracks and computes MACs; cards
    have neither PINs nor chip keys, so it verifies no PIN and no cryptogram."""

    def __init__(self, card_secrets: CardSecrets) -> None:
        self._card_secrets = card_secrets

    def verify_track(self, card: CardKeys, track: Track2) -> Verdict:
        """The service code must be the card's. The CVV1 is computed with it, the iCVV with 999."""
        if track.service_code is not None and track.service_code != SERVICE_CODE:
            return "invalid"
        if track.value is None or track.kind is None:
            return "unavailable"
        code = SERVICE_CODE if track.kind == "cvv1" else ICVV_SERVICE_CODE
        expected = self._card_secrets.track_value(
            card.pan, card.exp_year, card.exp_month, code, card.generation
        )
        return "valid" if hmac.compare_digest(track.value.encode(), expected.encode()) else "invalid"

    def verify_cryptogram(self, _card: CardKeys, _chip: Sequence[TlvObject], /) -> Verdict:
        return "unavailable"

    def verify_pin(self, _card: CardKeys, _pin_block: str, /) -> Verdict:
        return "unavailable"

    def mac(self, algorithm: str, key: bytes, data: bytes) -> bytes:
        return mac_of(algorithm, key, data)
