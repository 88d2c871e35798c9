"""Commands carry the outcomes of the checks that the policy asks for, with any implementation of
cryptography."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from actors.network.card_checks import CardChecks, KeysOf, no_keys
from actors.network.card_secrets import CardSecrets
from actors.network.database import DatabaseUnavailableError
from engine.iso8583.card_data import DEFAULT_VERIFICATION, Verification
from engine.iso8583.content import AuthorizationRequest
from engine.iso8583.content_reader import read
from engine.iso8583.cryptography import CardKeys, Cryptography, Verdict
from engine.iso8583.emv_tlv import TlvObject
from engine.iso8583.track2 import Track2
from engine.iso8583.translate import Routed
from engine.threeds import OWN_BYTES, authentication_value
from tests.support.actors.network.support import CARD, PAN
from tests.support.engine.iso8583.messages import message

PIN_BLOCK = "0123456789ABCDEF"
CHIP = "9F2608A1A2A3A4A5A6A7A89F36020020"
REFERENCE = "0b9f2c0a-6b1e-4b37-9d5f-3c1f0a2b4c5d"
KEY = bytes([7]) * 32


class Verifier:
    """Returns one verdict for everything, and records the calls."""

    def __init__(self, verdict: Verdict) -> None:
        self.verdict = verdict
        self.calls: list[tuple[str, Any]] = []

    def verify_track(self, card: CardKeys, track: Track2) -> Verdict:
        self.calls.append(("track", track.value))
        return self.verdict

    def verify_cryptogram(self, card: CardKeys, chip: Sequence[TlvObject]) -> Verdict:
        self.calls.append(("cryptogram", [each.tag for each in chip]))
        return self.verdict

    def verify_pin(self, card: CardKeys, pin_block: str) -> Verdict:
        self.calls.append(("pin", pin_block))
        return self.verdict

    def mac(self, algorithm: str, key: bytes, data: bytes) -> bytes:
        raise AssertionError("links compute MACs, not checks of cards")


def routed(
    card_secrets: CardSecrets,
    fields: dict[int, str | None],
    verification: Verification = DEFAULT_VERIFICATION,
    cryptography: Cryptography | None = None,
    keys_of: KeysOf = no_keys,
    /,
    **tags: str,
) -> Routed:
    checks = CardChecks(card_secrets, verification, cryptography=cryptography, authentication_keys=keys_of)
    content = read(message(fields, **tags), verification)
    assert isinstance(content, AuthorizationRequest)
    return checks.routed(content, CARD, "id", b"f")


def test_plain_message_has_an_expiry_and_no_other_card_data(card_secrets: CardSecrets) -> None:
    assert routed(card_secrets, {}) == Routed("id", CARD.card_id, b"f", expiry="match")


@pytest.mark.parametrize(
    ("verdict", "outcome"), [("valid", "match"), ("invalid", "mismatch"), ("unavailable", "absent")]
)
def test_track_is_always_verified(card_secrets: CardSecrets, verdict: Verdict, outcome: str) -> None:
    verifier = Verifier(verdict)
    found = routed(card_secrets, {35: f"{PAN}=29112010000012300000"}, DEFAULT_VERIFICATION, verifier)
    assert found.cvv1 == outcome
    assert verifier.calls == [("track", "123")]


def test_real_stripe_matches_and_a_changed_one_does_not(card_secrets: CardSecrets) -> None:
    track = card_secrets.track_2(PAN, CARD.exp_year, CARD.exp_month, CARD.cvk_generation)[:]
    value = track[-8:-5]
    wrong = f"{track[:-8]}{(int(value) + 1) % 1000:03d}00000"
    assert routed(card_secrets, {22: "901", 35: track}).cvv1 == "match"
    assert routed(card_secrets, {22: "901", 35: wrong}).cvv1 == "mismatch"
    assert routed(card_secrets, {22: "051", 35: track}).cvv1 == "mismatch"


@pytest.mark.parametrize(
    ("treatment", "verdict", "outcome"),
    [
        ("verify", "valid", "valid"),
        ("verify", "invalid", "invalid"),
        ("verify", "unavailable", "refused"),
        ("refuse", "valid", "refused"),
        ("ignore", "valid", "ignored"),
    ],
)
def test_policy_decides_about_pin_and_chip_data(
    card_secrets: CardSecrets, treatment: Any, verdict: Verdict, outcome: str
) -> None:
    verifier = Verifier(verdict)
    policy = Verification(pin=treatment, chip=treatment)
    found = routed(card_secrets, {52: PIN_BLOCK, 55: CHIP}, policy, verifier)
    assert (found.pin, found.chip) == (outcome, outcome)
    expected = [("pin", PIN_BLOCK), ("cryptogram", ["9F26", "9F36"])] if treatment == "verify" else []
    assert verifier.calls == expected
    assert PIN_BLOCK not in msgspec.json.encode(found).decode()


def test_software_has_no_keys_for_pin_and_chip(card_secrets: CardSecrets) -> None:
    found = routed(card_secrets, {52: PIN_BLOCK, 55: CHIP}, Verification(pin="verify", chip="verify"))
    assert (found.pin, found.chip) == ("refused", "refused")
    found = routed(card_secrets, {52: PIN_BLOCK, 55: CHIP})
    assert (found.pin, found.chip) == ("refused", "ignored")


def test_authentication_value_is_valid_only_under_a_key_of_the_programme(card_secrets: CardSecrets) -> None:
    card_programmes: list[str] = []

    def keys_of(programme_id: str) -> Sequence[bytes]:
        card_programmes.append(programme_id)
        return (KEY,)

    good = authentication_value(KEY, PAN, REFERENCE, bytes(OWN_BYTES))
    bad = authentication_value(bytes(32), PAN, REFERENCE, bytes(OWN_BYTES))
    for value, keys, outcome in (
        (good, keys_of, "valid"),
        (bad, keys_of, "invalid"),
        (good, no_keys, "present"),
    ):
        found = routed(card_secrets, {}, DEFAULT_VERIFICATION, None, keys, t02=value, t03=REFERENCE)
        assert found.authentication == outcome
    assert card_programmes == [CARD.programme_id] * 2


def test_unknown_keys_do_not_matter_without_an_authentication_value(card_secrets: CardSecrets) -> None:
    def keys_of(programme_id: str) -> Sequence[bytes]:
        raise DatabaseUnavailableError

    assert routed(card_secrets, {}, DEFAULT_VERIFICATION, None, keys_of).authentication == "absent"
    with pytest.raises(DatabaseUnavailableError):
        routed(card_secrets, {}, DEFAULT_VERIFICATION, None, keys_of, t02="x", t03=REFERENCE)
