"""Sealed numbers are bound to their card; CVV2 values are computed and never stored."""

from __future__ import annotations

import pytest

from actors.network.card_secrets import CardSecrets
from actors.vault import VaultError
from engine.pan import Pan
from tests.support.actors.network.support import CARD_ID, PAN


def test_sealed_number_opens_only_for_its_card(card_secrets: CardSecrets) -> None:
    sealed = card_secrets.seal(CARD_ID, PAN)
    assert PAN.encode() not in sealed
    opened = card_secrets.open(CARD_ID, sealed)
    assert opened == PAN
    assert type(opened) is Pan
    with pytest.raises(VaultError) as refused:
        card_secrets.open(CARD_ID.replace("a7", "a8"), sealed)
    assert PAN not in str(refused.value)


def test_digest_identifies_a_number(card_secrets: CardSecrets) -> None:
    assert card_secrets.digest(PAN) == card_secrets.digest(Pan(PAN))
    assert card_secrets.digest(PAN) != card_secrets.digest(PAN[:-1] + "2")
    assert len(card_secrets.digest(PAN)) == 32


def test_cvv2_matches_only_the_right_value(card_secrets: CardSecrets) -> None:
    value = card_secrets.cvv2(PAN, 2029, 11, "1")
    assert len(value) == 3
    assert value.isdecimal()
    assert card_secrets.check_cvv2(value, PAN, 2029, 11, "1") == "match"
    assert card_secrets.check_cvv2(None, PAN, 2029, 11, "1") == "absent"
    for wrong in ("", value + "0", f"{(int(value) + 1) % 1000:03d}", "é" * 3):
        assert card_secrets.check_cvv2(wrong, PAN, 2029, 11, "1") == "mismatch"


def test_cvv2_depends_on_key_generation_and_expiry(card_secrets: CardSecrets) -> None:
    generations = {card_secrets.cvv2(PAN, 2029, 11, str(generation)) for generation in range(20)}
    expiries = {card_secrets.cvv2(PAN, 2029, month, "1") for month in range(1, 13)}
    assert len(generations) > 10
    assert len(expiries) > 5


def test_repr_hides_the_keys(card_secrets: CardSecrets) -> None:
    assert repr(card_secrets) == "CardSecrets()"
