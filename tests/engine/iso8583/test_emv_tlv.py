"""EMV data: BER-TLV objects, the values that a trace may show, and malformed data."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.iso8583.elements import ElementError
from engine.iso8583.emv_tlv import read_chip, shown, write_chip

PAN = "4111111111111111"
TRACK = "4111111111111111D29112010000012300000F"
HARMLESS = [
    ("82", "1980"),
    ("84", "A0000000031010"),
    ("95", "0000008000"),
    ("9A", "261121"),
    ("9F02", "000000001234"),
    ("9F10", "06010A03A00000"),
    ("9F36", "0020"),
    ("9F37", "DEADBEEF"),
]
SENSITIVE = [
    ("57", TRACK),
    ("5A", PAN),
    ("5F20", "4C4F56454C4143452F414441"),
    ("5F24", "291130"),
    ("5F30", "0201"),
    ("99", "0123456789ABCDEF"),
    ("9F1F", "30303132333030"),
    ("9F26", "A1A2A3A4A5A6A7A8"),
    ("9F6B", TRACK),
    ("DF8101", "C0FFEE"),
]

objects = st.lists(
    st.tuples(
        st.sampled_from([tag for tag, _ in HARMLESS] + ["9F26", "9F6B", "DF01", "DF8101"]),
        st.binary(max_size=40).map(lambda data: data.hex().upper()),
    ),
    min_size=1,
    max_size=8,
    unique_by=lambda pair: pair[0],
)


@given(objects)
def test_written_objects_are_read_back(pairs: list[tuple[str, str]]) -> None:
    found = read_chip(write_chip(pairs), PAN)
    assert [(each.tag, each.value[:]) for each in found] == pairs
    assert repr(found).count("****") == len(pairs)


@pytest.mark.parametrize(("tag", "value"), HARMLESS)
def test_harmless_value_is_shown(tag: str, value: str) -> None:
    assert shown(read_chip(write_chip([(tag, value)]), PAN), PAN) == (f"{tag}={value}",)


@pytest.mark.parametrize(("tag", "value"), SENSITIVE)
def test_sensitive_or_unknown_value_is_masked(tag: str, value: str) -> None:
    found = read_chip(write_chip([(tag, value)]), PAN)
    assert shown(found, PAN) == (f"{tag}=****",)
    assert value not in repr(found)


@pytest.mark.parametrize(
    ("tag", "value"),
    [
        ("82", "198000"),
        ("82", "19"),
        ("9F10", "41" * 33),
        ("84", PAN),
        ("9F06", f"0{PAN}0"),
        ("9F10", PAN.encode().hex().upper()),
    ],
)
def test_value_that_could_hide_card_data_is_masked(tag: str, value: str) -> None:
    assert shown(read_chip(write_chip([(tag, value)]), PAN), PAN) == (f"{tag}=****",)


def test_objects_of_templates_are_shown_in_their_order() -> None:
    inner = "9F3602002084" + "07A0000000031010"
    text = f"8202198070{len(inner) // 2:02X}{inner}"
    assert shown(read_chip(text, PAN), PAN) == ("82=1980", "9F36=0020", "84=A0000000031010")


@pytest.mark.parametrize(
    "text", ["820219809F36020020", "00820219800000009f36020020", "8281021980009F368200020020"]
)
def test_filler_lower_case_and_long_lengths_are_read(text: str) -> None:
    assert shown(read_chip(text, PAN), PAN) == ("82=1980", "9F36=0020")


@pytest.mark.parametrize(
    "pair", [("57", TRACK.replace("4111", "5111", 1)), ("5A", "5555555555554444"), ("5A", "")]
)
def test_other_card_number_is_refused(pair: tuple[str, str]) -> None:
    text = write_chip([pair])
    with pytest.raises(ElementError, match="names another card"):
        read_chip(text, PAN)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "9F2",
        "9F26",
        "9F2608AABB",
        "9F2681",
        "9F2680AA",
        "9F2683000001AA",
        "9F",
        "9F81818181",
        "garbage data",
        "8202198g",
        "70029F26",
        "7002" * 9 + "8400",
        "82021980" * 2,
    ],
)
def test_malformed_data_are_refused_without_values(text: str) -> None:
    with pytest.raises(ElementError) as refused:
        read_chip(text, PAN)
    assert refused.value.field == 55
    assert not text or text not in str(refused.value)


@given(objects, st.data())
def test_mutated_data_are_read_or_refused_and_never_unmasked(
    pairs: list[tuple[str, str]], data: st.DataObject
) -> None:
    raw = bytearray(bytes.fromhex(write_chip([*pairs, ("5A", PAN)])[:]))
    for _ in range(data.draw(st.integers(1, 3))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    try:
        found = read_chip(raw.hex(), PAN)
    except ElementError:
        return
    assert PAN not in " ".join(shown(found, PAN))
