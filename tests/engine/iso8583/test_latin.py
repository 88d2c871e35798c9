"""Merchant names are transliterated to ASCII."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.iso8583.elements import CardAcceptor, read_card_acceptor, write_card_acceptor
from engine.iso8583.latin import plain


@pytest.mark.parametrize(
    ("text", "ascii_"),
    [
        ("Corner Shop", "Corner Shop"),
        ("Łódź", "Lodz"),
        ("Café Zürich", "Cafe Zurich"),
        ("Straße", "Strasse"),
        ("Ærøskøbing", "AEroskobing"),
        ("Đorđe", "Dorde"),
        ("Þórshöfn", "THorshofn"),
        ("Œuvre", "OEuvre"),
        ("Kadıköy", "Kadikoy"),
        ("Ǿ", "O"),
        ("Żółć", "Zolc"),
        ("L’Épicerie – «Bio»", 'L\'Epicerie - "Bio"'),
        ("\ufb01ne", "fine"),
        ("東京", "??"),
        ("tab\there", "tab?here"),
    ],
)
def test_letters_are_transliterated(text: str, ascii_: str) -> None:
    assert plain(text) == ascii_


@given(st.text())
def test_plain_text_is_printable_ascii(text: str) -> None:
    written = plain(text)
    assert written.isascii()
    assert written.isprintable()
    assert plain(written) == written


def test_transliterated_name_survives_a_round_trip() -> None:
    read = read_card_acceptor(write_card_acceptor(CardAcceptor("Sklep Łódź", "Gdańsk", "PL")))
    assert (read.name, read.city) == ("Sklep Lodz", "Gdansk")


def test_name_that_grows_is_truncated_to_its_field() -> None:
    assert len(write_card_acceptor(CardAcceptor("ß" * 23, "ß" * 15, "DE"))) == 40
