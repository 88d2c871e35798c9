"""Track 2: its parts, the value that a terminal can have read, and that no digit is shown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.iso8583.elements import ElementError
from engine.iso8583.track2 import SERVICE_CODE, read_track_2, write_track_2

PAN = "4111111111111111"


@pytest.mark.parametrize(
    ("text", "expiry", "code", "value"),
    [
        (f"{PAN}=29112010000012300000", "2911", "201", "123"),
        (f"{PAN}D29112010000012300000F", "2911", "201", "123"),
        (f"{PAN}=291110100000123", "2911", "101", "123"),
        (f"{PAN}=2911201112340990", "2911", "201", "099"),
        (f"{PAN}=29112011123400", "2911", "201", None),
        (f"{PAN}=29112010000000000000", "2911", "201", None),
        (f"{PAN}=29112010", "2911", "201", None),
        (f"{PAN}=2911201", "2911", "201", None),
        (f"{PAN}==2010000012300000", None, "201", "123"),
        (f"{PAN}=2911=0000012300000", "2911", None, "123"),
        (f"{PAN}===", None, None, None),
    ],
)
def test_parts_of_a_track(text: str, expiry: str | None, code: str | None, value: str | None) -> None:
    track = read_track_2(text, PAN, "90")
    assert (track.pan, track.expiry, track.service_code, track.value) == (PAN, expiry, code, value)
    assert not any(part in repr(track) for part in (PAN, "2911", "201", "123"))


@pytest.mark.parametrize(
    ("entry", "kind"),
    [
        ("90", "cvv1"),
        ("80", "cvv1"),
        ("00", "cvv1"),
        ("", "cvv1"),
        ("05", "icvv"),
        ("07", "icvv"),
        ("02", None),
        ("91", None),
        ("95", None),
    ],
)
def test_entry_mode_determines_the_value(entry: str, kind: str | None) -> None:
    assert read_track_2(f"{PAN}=29112010000012300000", PAN, entry).kind == kind


@given(st.text("0123456789", min_size=4, max_size=4), st.integers(1, 999))
def test_written_track_is_read_back(expiry: str, number: int) -> None:
    value = f"{number:03d}"
    text = write_track_2(PAN, expiry, value)
    assert PAN not in f"{text!r}{text}"
    assert len(text) == 37
    track = read_track_2(text, PAN, "90")
    assert (track.expiry, track.service_code, track.value) == (expiry, SERVICE_CODE, value)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "garbage",
        PAN,
        f"{PAN}=",
        f"{PAN}=2911",
        f"{PAN}=29112",
        f"{PAN}=2911201x",
        f"{PAN}=2911201\u0663",
        f";{PAN}=29112010?",
        f"{PAN}=2911201FF",
        "5555555555554444=29112010000012300000",
        f"{PAN}0=29112010000012300000",
    ],
)
def test_malformed_track_and_foreign_number_are_refused_without_values(text: str) -> None:
    with pytest.raises(ElementError) as refused:
        read_track_2(text, PAN, "90")
    assert refused.value.field == 35
    assert not any(part and part in str(refused.value) for part in (text, PAN, "2911"))


@given(st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=37))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        track = read_track_2(text, PAN, "90")
    except ElementError:
        return
    assert track.pan == PAN
