"""Nested elements survive a round trip. Malformed ones raise an error with the field number, without a
value."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.instant import to_ms
from engine.iso8583.elements import (
    AdditionalAmount,
    CardAcceptor,
    ElementError,
    OriginalElements,
    read_additional_amounts,
    read_card_acceptor,
    read_original_elements,
    read_private,
    read_replacement_amount,
    retrieval_reference,
    transmission_time,
    write_additional_amounts,
    write_card_acceptor,
    write_original_elements,
    write_private,
    write_replacement_amount,
)
from engine.iso8583.latin import plain
from tests.support.engine.iso8583.messages import PRINTABLE

digits = "0123456789"


@pytest.mark.parametrize("at_ms", [-1, 0, 999, 1_000, 3_599_999, 3_600_000, 1_795_253_400_123])
def test_references_of_neighbouring_instants(at_ms: int) -> None:
    for instant_ms in (at_ms - 1, at_ms, at_ms + 1):
        at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=instant_ms)
        assert transmission_time(instant_ms) == f"{at:%m%d%H%M%S}"
        assert retrieval_reference(instant_ms, "000123") == f"{at:%Y%j%H}"[3:] + "000123"


def test_transmission_time_and_retrieval_reference() -> None:
    at_ms = to_ms(datetime(2026, 11, 21, 9, 5, 7, tzinfo=UTC))
    assert transmission_time(at_ms) == "1121090507"
    assert retrieval_reference(at_ms, "000123") == "632509000123"
    assert retrieval_reference(to_ms(datetime(2030, 1, 1, tzinfo=UTC)), "999999") == "000100999999"


# DE43


def test_card_acceptor() -> None:
    text = write_card_acceptor(CardAcceptor("Corner shop", "Dublin", "IE"))
    assert text == "Corner shop            Dublin         IE"
    assert read_card_acceptor(text) == CardAcceptor("Corner shop", "Dublin", "IE")


@given(st.text(max_size=60), st.text(max_size=60))
def test_any_name_fits_de43(name: str, city: str) -> None:
    text = write_card_acceptor(CardAcceptor(name, city, "GB"))
    assert len(text) == 40
    assert text.isascii()
    assert text.isprintable()


def test_card_acceptor_is_transliterated() -> None:
    assert plain("Café Ångström\n") == "Cafe Angstrom?"
    assert plain("寿司") == "??"


def test_country_is_read_in_upper_case() -> None:
    assert read_card_acceptor("x".ljust(38) + "ie").country == "IE"


@pytest.mark.parametrize("country", ["  ", "I ", "1E", "--"])
def test_card_acceptor_without_a_country_is_refused(country: str) -> None:
    with pytest.raises(ElementError) as failed:
        read_card_acceptor("Corner shop".ljust(38) + country)
    assert failed.value.field == 43


# DE48

tags = st.dictionaries(st.text(digits, min_size=2, max_size=2), st.text(PRINTABLE, max_size=40), max_size=9)


@given(tags)
def test_private_tags_survive_a_round_trip(written: dict[str, str]) -> None:
    assert read_private(write_private(written)) == written


def test_secret_tags_are_masked() -> None:
    text = write_private({"01": "123", "02": "AAAB", "04": "SN1"})
    assert "123" not in f"{text} {text!r}"
    assert "123" not in repr(read_private(text))
    assert "AAAB" not in repr(read_private(text))
    assert "SN1" in repr(read_private(text))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("0", "no tag and length at 0"),
        ("0100", "no tag and length at 0"),
        ("01x03123", "no tag and length at 0"),
        ("01-03123", "no tag and length at 0"),
        ("01003123x", "no tag and length at 8"),
        ("0100412", "cut short at 5"),
        ("01001121", "no tag and length at 6"),
        ("010011010011", "repeats a tag"),
    ],
)
def test_malformed_private_tags_are_refused(text: str, problem: str) -> None:
    with pytest.raises(ElementError, match=problem) as failed:
        read_private(text)
    assert failed.value.field == 48


@pytest.mark.parametrize("written", [{"1": "x"}, {"001": "x"}, {"01": "x" * 1000}])
def test_private_tags_that_do_not_fit_are_refused(written: dict[str, str]) -> None:
    with pytest.raises(ElementError):
        write_private(written)


# DE54


def test_original_amount_of_a_partial_approval() -> None:
    text = write_additional_amounts([AdditionalAmount("57", "978", 12_34)])
    assert text == "0057978D000000001234"


@given(
    st.lists(
        st.builds(
            AdditionalAmount,
            st.text(digits, min_size=2, max_size=2),
            st.text(digits, min_size=3, max_size=3),
            st.integers(-(10**12) + 1, 10**12 - 1),
        ),
        max_size=12,
    )
)
def test_additional_amounts(amounts: list[AdditionalAmount]) -> None:
    assert read_additional_amounts(write_additional_amounts(amounts)) == amounts


@pytest.mark.parametrize(
    "text", ["0", "0057978D00000000123", "0057978X000000001234", "0057978D000000001234x"]
)
def test_malformed_additional_amounts_are_refused(text: str) -> None:
    with pytest.raises(ElementError, match="DE54"):
        read_additional_amounts(text)


# DE90, DE95


def test_original_elements() -> None:
    original = OriginalElements("0100", "000123", "1121103000", "424242")
    text = write_original_elements(original)
    assert text == "01000001231121103000" + "00000424242" + "00000000000"
    assert read_original_elements(text) == original


@pytest.mark.parametrize("text", ["", "0" * 41, "0" * 43, "0" * 41 + "x", "0" * 41 + "٠"])
def test_malformed_original_elements_are_refused(text: str) -> None:
    with pytest.raises(ElementError, match="DE90"):
        read_original_elements(text)


@given(st.integers(0, 10**12 - 1))
def test_replacement_amount(amount_minor: int) -> None:
    text = write_replacement_amount(amount_minor)
    assert len(text) == 42
    assert read_replacement_amount(text) == amount_minor


def test_replacement_amount_without_signs() -> None:
    assert read_replacement_amount("000000000500" + "0" * 30) == 500


@pytest.mark.parametrize("text", ["", "0" * 41, "0" * 43, "x" * 42, "00000000050x" + "0" * 30])
def test_malformed_replacement_amount_is_refused(text: str) -> None:
    with pytest.raises(ElementError, match="DE95"):
        read_replacement_amount(text)
