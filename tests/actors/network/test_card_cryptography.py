"""Software cryptography verifies tracks, and says that it has no keys for PINs and cryptograms."""

from __future__ import annotations

from typing import Any

import pytest
from psec.cvv import generate_cvv

from actors.network.card_cryptography import SoftwareCryptography
from actors.network.card_secrets import CardSecrets
from actors.vault import Vault, mac_of
from engine.iso8583.cryptography import CardKeys, Cryptography
from engine.iso8583.emv_tlv import read_chip
from engine.iso8583.track2 import read_track_2
from engine.pan import Masked, Pan
from tests.support.actors.network.support import PAN

KEYS = CardKeys(Pan(PAN), 2029, 11, "1")
STRIPE_ENTRY, CHIP_ENTRY, CONTACTLESS_STRIPE_ENTRY = "90", "05", "91"


@pytest.fixture
def cryptography(card_secrets: CardSecrets) -> Cryptography:
    return SoftwareCryptography(card_secrets)


@pytest.mark.filterwarnings("ignore")  # psec uses ciphers that its dependency has deprecated
def test_tracks_carry_the_values_of_an_independent_implementation(
    card_secrets: CardSecrets, vault: Vault
) -> None:
    card = (PAN, 2029, 11, "1")
    for track, code in ((card_secrets.track_2(*card), "201"), (card_secrets.chip_track_2(*card), "999")):
        value = generate_cvv(vault.cvk_pair("1"), PAN, "2911", code)
        assert track[:] == f"{PAN}=291120100000{value}00000"


@pytest.mark.parametrize(
    ("entry", "chip", "verdict"),
    [
        (STRIPE_ENTRY, False, "valid"),
        (STRIPE_ENTRY, True, "invalid"),
        (CHIP_ENTRY, True, "valid"),
        (CHIP_ENTRY, False, "invalid"),
        (CONTACTLESS_STRIPE_ENTRY, True, "unavailable"),
    ],
)
def test_stripe_and_chip_have_values_of_their_own(
    cryptography: Cryptography, card_secrets: CardSecrets, entry: str, chip: bool, verdict: str
) -> None:
    written = card_secrets.chip_track_2 if chip else card_secrets.track_2
    text = written(PAN, 2029, 11, "1")
    assert cryptography.verify_track(KEYS, read_track_2(text, PAN, entry)) == verdict


@pytest.mark.parametrize("change", [{"pan": Pan("4111111111111129")}, {"exp_month": 12}, {"generation": "2"}])
def test_value_of_another_card_is_invalid(
    cryptography: Cryptography, card_secrets: CardSecrets, change: dict[str, Any]
) -> None:
    card: dict[str, Any] = {"pan": Pan(PAN), "exp_year": 2029, "exp_month": 11, "generation": "1"} | change
    # The values have three digits; for these cards they differ.
    other = read_track_2(card_secrets.track_2(**card), card["pan"], STRIPE_ENTRY)
    assert cryptography.verify_track(KEYS, other) == "invalid"


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        (f"{PAN}=2911101", "invalid"),
        (f"{PAN}=2911201", "unavailable"),
        (f"{PAN}=29112010000000000000", "unavailable"),
        (f"{PAN}=2911=", "unavailable"),
    ],
)
def test_service_code_is_verified_without_a_value(
    cryptography: Cryptography, text: str, verdict: str
) -> None:
    assert cryptography.verify_track(KEYS, read_track_2(text, PAN, STRIPE_ENTRY)) == verdict


def test_pin_and_cryptogram_are_not_verified(cryptography: Cryptography) -> None:
    assert cryptography.verify_pin(KEYS, Masked("0123456789ABCDEF")) == "unavailable"
    assert cryptography.verify_cryptogram(KEYS, read_chip("9F2608A1A2A3A4A5A6A7A8", PAN)) == "unavailable"


def test_mac_is_that_of_the_vault(cryptography: Cryptography) -> None:
    assert cryptography.mac("aes-cmac", bytes(16), b"data") == mac_of("aes-cmac", bytes(16), b"data")
