"""The interface to card cryptography, and what a policy makes of its verdicts.

An implementation has the keys of cards. ``actors.network.card_cryptography`` derives them from the master
key; a module for security hardware would implement the same interface. Values are arguments and never
results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Literal, Protocol

import msgspec

from engine.iso8583.card_data import Treatment
from engine.iso8583.emv_tlv import TlvObject
from engine.iso8583.track2 import Track2
from engine.pan import Pan

Verdict = Literal["valid", "invalid", "unavailable"]
"""``unavailable``: the implementation has no key for this value."""
Outcome = Literal["absent", "ignored", "refused", "valid", "invalid"]


class CardKeys(msgspec.Struct, frozen=True, gc=False):
    """The card whose data are verified, and the generation of its keys."""

    pan: Pan
    exp_year: int
    exp_month: int
    generation: str


class Cryptography(Protocol):
    """Verifies what a message presents. Implementations compare in constant time and log no values."""

    def verify_track(self, card: CardKeys, track: Track2, /) -> Verdict:
        """The service code, and the CVV1 or iCVV, of a track. ``unavailable`` if the track has neither."""

    def verify_cryptogram(self, card: CardKeys, chip: Sequence[TlvObject], /) -> Verdict:
        """The application cryptogram (EMV tag 9F26) over the other objects of DE55."""

    def verify_pin(self, card: CardKeys, pin_block: str, /) -> Verdict:
        """The PIN in an encrypted PIN block: 16 hexadecimal digits (ISO 9564, DE52)."""

    def mac(self, algorithm: str, key: bytes, data: bytes) -> bytes:
        """The MAC of ``data`` (``engine.iso8583.mac``). Raises ``MacKeyError``."""


_UNVERIFIED: Final[dict[Treatment, Outcome]] = {"verify": "refused", "refuse": "refused", "ignore": "ignored"}


def treated(treatment: Treatment, verify: Callable[[], Verdict]) -> Outcome:
    """The outcome for a presented value under ``treatment``. ``verify`` is called only under ``verify``."""
    verdict = verify() if treatment == "verify" else "unavailable"
    return _UNVERIFIED[treatment] if verdict == "unavailable" else verdict
