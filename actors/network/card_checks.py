"""Checks of the card data in an authorization. A command carries their outcomes, never the values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Literal

from actors.network.card_cryptography import SoftwareCryptography
from actors.network.card_secrets import CardSecrets
from actors.network.cards import IssuedCard
from engine.iso8583.card_data import Verification, check_expiry
from engine.iso8583.content import AuthorizationRequest
from engine.iso8583.cryptography import CardKeys, Cryptography, Outcome, Verdict, treated
from engine.iso8583.translate import Routed
from engine.threeds import Authentication, check_evidence

KeysOf = Callable[[str], Sequence[bytes]]
"""The authentication keys of a programme. Raises ``DatabaseUnavailableError`` while they are unknown."""

_TRACK_OUTCOMES: Final[dict[Verdict, Literal["absent", "match", "mismatch"]]] = {
    "valid": "match",
    "invalid": "mismatch",
    "unavailable": "absent",
}


def no_keys(_programme_id: str) -> Sequence[bytes]:
    """For an edge whose programmes have no authentication keys."""
    return ()


class CardChecks:
    """Compares what a message presents with the card, under the edge's policy."""

    def __init__(
        self,
        card_secrets: CardSecrets,
        verification: Verification,
        *,
        cryptography: Cryptography | None = None,
        authentication_keys: KeysOf = no_keys,
    ) -> None:
        """``cryptography``: in software by default."""
        self._card_secrets = card_secrets
        self._verification = verification
        self._cryptography = cryptography or SoftwareCryptography(card_secrets)
        self._authentication_keys = authentication_keys

    def routed(
        self, content: AuthorizationRequest, card: IssuedCard, command_id: str, fingerprint: bytes
    ) -> Routed:
        """The edge's part of the command. Raises ``DatabaseUnavailableError`` as ``KeysOf`` does."""
        return Routed(
            id=command_id,
            card_id=card.card_id,
            fingerprint=fingerprint,
            expiry=check_expiry(content.expiries, card.exp_year, card.exp_month),
            cvv2=self._card_secrets.check_cvv2(
                content.cvv2, content.pan, card.exp_year, card.exp_month, card.cvk_generation
            ),
            cvv1=self._cvv1(content, card),
            pin=self._pin(content, card),
            chip=self._chip(content, card),
            authentication=self._authentication(content, card),
        )

    def _cvv1(
        self, content: AuthorizationRequest, card: IssuedCard
    ) -> Literal["absent", "match", "mismatch"]:
        track = content.track
        if track is None:
            return "absent"
        return _TRACK_OUTCOMES[self._cryptography.verify_track(_keys(content, card), track)]

    def _pin(self, content: AuthorizationRequest, card: IssuedCard) -> Outcome:
        pin_block = content.pin
        if pin_block is None:
            return "absent"
        keys = _keys(content, card)
        return treated(self._verification.pin, lambda: self._cryptography.verify_pin(keys, pin_block))

    def _chip(self, content: AuthorizationRequest, card: IssuedCard) -> Outcome:
        chip = content.chip
        if not chip:
            return "absent"
        keys = _keys(content, card)
        return treated(self._verification.chip, lambda: self._cryptography.verify_cryptogram(keys, chip))

    def _authentication(self, content: AuthorizationRequest, card: IssuedCard) -> Authentication:
        value, reference = content.auth_value, content.threeds_ref
        if value is None and reference is None:
            return "absent"
        return check_evidence(value, reference, content.pan, self._authentication_keys(card.programme_id))


def _keys(content: AuthorizationRequest, card: IssuedCard) -> CardKeys:
    return CardKeys(content.pan, card.exp_year, card.exp_month, card.cvk_generation)
