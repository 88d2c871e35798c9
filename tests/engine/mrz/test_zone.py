"""Zones: the standard's specimens, the faults of invalid zones, and errors that the check digits detect."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.mrz.check_digit import ALPHABET, FILLER, VALUES
from engine.mrz.layout import LAYOUTS, TD1, TD2, TD3
from engine.mrz.zone import Fault, Zone, read_zone, write_zone

ANNA: dict[str, Any] = {
    "issuer": "UTO",
    "nationality": "UTO",
    "birth": "740812",
    "sex": "F",
    "expiry": "120415",
    "surname": ("ERIKSSON",),
    "given": ("ANNA", "MARIA"),
}
PASSPORT = "P<UTOERIKSSON<<ANNA<MARIA<<<<<<<<<<<<<<<<<<<\nL898902C36UTO7408122F1204159ZE184226B<<<<<10"
SPECIMENS = {
    # ICAO Doc 9303-4, appendix B; 9303-5, appendix B (and its example of a long number); 9303-6, appendix B.
    PASSPORT: Zone(size="TD3", code="P", number="L898902C3", optional="ZE184226B", **ANNA),
    "I<UTOD231458907<<<<<<<<<<<<<<<\n7408122F1204159UTO<<<<<<<<<<<6\nERIKSSON<<ANNA<MARIA<<<<<<<<<<": Zone(
        size="TD1", code="I", number="D23145890", **ANNA
    ),
    "I<UTOERIKSSON<<ANNA<MARIA<<<<<<<<<<<\nD231458907UTO7408122F1204159<<<<<<<6": Zone(
        size="TD2", code="I", number="D23145890", **ANNA
    ),
    "I<UTOD23145890<7349<<<<<<<<<<<\n3407127M9507122UTO<<<<<<<<<<<2\nSTEVENSON<<PETER<JOHN<<<<<<<<<": Zone(
        size="TD1",
        code="I",
        number="D23145890734",
        issuer="UTO",
        nationality="UTO",
        birth="340712",
        sex="M",
        expiry="950712",
        surname=("STEVENSON",),
        given=("PETER", "JOHN"),
    ),
}


@pytest.mark.parametrize(("text", "zone"), SPECIMENS.items(), ids=["TD3", "TD1", "TD2", "long number"])
def test_published_specimens(text: str, zone: Zone) -> None:
    assert read_zone(text) == zone
    assert read_zone(text.replace("\n", "")) == zone
    assert read_zone(text.replace("\n", "\r\n") + "\n") == zone
    assert write_zone(zone) == text


def replaced(at: int, text: str) -> str:
    joined = PASSPORT.replace("\n", "")
    return joined[:at] + text + joined[at + len(text) :]


def rewritten(**changes: Any) -> str:
    """The passport with other content and right check digits."""
    return write_zone(msgspec.structs.replace(SPECIMENS[PASSPORT], **changes))


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", Fault.LENGTH),
        ("P<UTO", Fault.LENGTH),
        (PASSPORT + "<", Fault.LENGTH),
        (PASSPORT[:40] + "\n" + PASSPORT[40:].replace("\n", ""), Fault.LENGTH),
        (PASSPORT.lower(), Fault.CHARACTERS),
        (PASSPORT.replace("ANNA", "ANN "), Fault.CHARACTERS),
        (PASSPORT.replace("ANNA", "ANNÀ"), Fault.CHARACTERS),
        (PASSPORT.replace("P<UTO", "V<UTO"), Fault.DOCUMENT_CODE),
        (replaced(53, "7"), Fault.NUMBER_CHECK),
        (replaced(63, "3"), Fault.BIRTH_CHECK),
        (replaced(71, "8"), Fault.EXPIRY_CHECK),
        (replaced(86, "2"), Fault.OPTIONAL_CHECK),
        (replaced(86, "<"), Fault.OPTIONAL_CHECK),
        (replaced(87, "1"), Fault.COMPOSITE_CHECK),
        (rewritten(number=""), Fault.NUMBER),
        (rewritten(issuer="ZZZ"), Fault.ISSUER),
        (rewritten(nationality="EN"), Fault.NATIONALITY),
        (rewritten(birth="741312"), Fault.BIRTH),
        (rewritten(birth="7408<2"), Fault.BIRTH),
        (rewritten(expiry="230229"), Fault.EXPIRY),
        (rewritten(expiry="2302<<"), Fault.EXPIRY),
        (rewritten(sex="X"), Fault.SEX),
        (rewritten(surname=(), given=()), Fault.NAMES),
        (rewritten(surname=("ER1KSSON",)), Fault.NAMES),
    ],
)
def test_fault_of_an_invalid_zone(text: str, fault: Fault) -> None:
    assert read_zone(text) is fault


@pytest.mark.parametrize("birth", ["74<<<<", "<<<<<<", "7408<<", "000229"])
def test_unknown_parts_of_a_birth_date(birth: str) -> None:
    zone = read_zone(rewritten(birth=birth))
    assert isinstance(zone, Zone)
    assert zone.birth == birth


def test_empty_optional_data_need_no_check_digit() -> None:
    without = rewritten(optional="").replace("\n", "")
    assert without[86] == "0"
    with_filler = read_zone(without[:86] + "<" + without[87:])
    assert isinstance(with_filler, Zone)
    assert with_filler == read_zone(without)


def test_faults_show_no_value() -> None:
    assert all(not any(part in fault.value for part in ("ERIKSSON", "L898", "7408")) for fault in Fault)


WORD = st.text("ABCDEFGHIJKLMNOPQRSTUVWXYZ", min_size=1, max_size=8)
STATE = st.sampled_from(["IRL", "DEU", "D", "FRA", "GBR", "GBN", "UTO", "XXA", "RKS"])


@st.composite
def zones(draw: st.DrawFn) -> Zone:
    layout = draw(st.sampled_from([TD1, TD2, TD3]))
    longest = 9 if layout is TD3 else 9 + layout.optional[1] - layout.optional[0] - 2
    number = draw(st.text(ALPHABET, min_size=1, max_size=longest))
    # Behind a long number one filler ends it; the rest of the field is free.
    taken = len(number) - 9 + 2 if len(number) > 9 else 0
    room = layout.optional[1] - layout.optional[0] - taken
    optional_2 = draw(st.text(ALPHABET, max_size=11)) if layout.optional_2 else ""
    return Zone(
        size=layout.name,
        code=draw(st.sampled_from(list(layout.codes))),
        issuer=draw(STATE),
        number=number,
        nationality=draw(STATE),
        birth=draw(st.dates()).strftime("%y%m%d").replace("0229", "0228"),
        sex=draw(st.sampled_from(["F", "M", ""])),
        expiry=draw(st.dates()).strftime("%y%m%d").replace("0229", "0228"),
        surname=tuple(draw(st.lists(WORD, min_size=1, max_size=2))),
        given=tuple(draw(st.lists(WORD, max_size=1))),
        optional=draw(st.text(ALPHABET, max_size=max(0, room))),
        optional_2=optional_2,
    )


@settings(deadline=None)
@given(zones())
def test_written_zone_reads_back(zone: Zone) -> None:
    text = write_zone(zone)
    layout = LAYOUTS[len(text.replace("\n", ""))]
    assert [len(row) for row in text.split("\n")] == [layout.columns] * layout.rows
    assert read_zone(text) == zone


@settings(deadline=None)
@given(zones(), st.data())
def test_change_in_a_protected_field_is_detected(zone: Zone, data: st.DataObject) -> None:
    """... unless the two characters' values differ by a multiple of ten, which no check digit can see."""
    text = write_zone(zone).replace("\n", "")
    layout = LAYOUTS[len(text)]
    at = data.draw(st.sampled_from([at for span in layout.composite for at in range(*span)]))
    seen = [one for one in ALPHABET + FILLER if (VALUES[one] - VALUES[text[at]]) % 10]
    changed = text[:at] + data.draw(st.sampled_from(seen)) + text[at + 1 :]
    assert isinstance(read_zone(changed), Fault)


@pytest.mark.parametrize(
    ("surname", "cut"),
    [
        # TD1 has room for 30 characters of names.
        ("NILAVADHANANANDA", False),
        ("N" * 24, False),
        ("N" * 25, True),
        ("N" * 30, True),
        ("N" * 40, True),
    ],
)
def test_long_names_are_marked_as_cut(surname: str, cut: bool) -> None:
    zone = Zone(size="TD1", code="I", number="1", **ANNA)
    read = read_zone(write_zone(msgspec.structs.replace(zone, surname=(surname,), given=("ANN",))))
    assert isinstance(read, Zone)
    assert read.names_cut == cut


@settings(deadline=None)
@given(st.text(max_size=100) | st.text(ALPHABET + FILLER, min_size=88, max_size=90))
def test_any_text_gives_a_zone_or_a_fault(text: str) -> None:
    assert isinstance(read_zone(text), Zone | Fault)
