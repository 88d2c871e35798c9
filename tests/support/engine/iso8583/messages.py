"""Messages of the profile for tests: an example and a generator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st
from iso8583.specs import default_ascii

from engine.iso8583.elements import write_private
from engine.iso8583.message import Message

PRINTABLE = "".join(chr(code) for code in range(0x20, 0x7F))

EXAMPLE = {
    "t": "0100",
    "2": "4111111111111111",
    "3": "000000",
    "4": "000000001234",
    "7": "1121103000",
    "11": "000123",
    "12": "103000",
    "13": "1121",
    "14": "2911",
    "18": "5411",
    "22": "051",
    "25": "00",
    "32": "424242",
    "37": "632510000123",
    "41": "TERM0001",
    "42": "MERCHANT0000001",
    "43": "Corner shop            Dublin         IE",
    "49": "978",
}
"""A purchase of 12.34 EUR, as a pyiso8583 dictionary."""

ORIGINAL = "0100" + "000123" + "1121103000" + "424242".zfill(11) + "0" * 11
"""DE90 with the references of the example."""

FIELDS = {int(number): value for number, value in EXAMPLE.items() if number != "t"}


def message(changes: Mapping[int, str | None] | None = None, /, mti: str = "0100", **tags: str) -> Message:
    """The example with replaced or (``None``) removed fields and a DE48 of ``tags`` (``t01=…``)."""
    fields: dict[int, str | None] = {**FIELDS, **(changes or {})}
    if tags:
        fields[48] = write_private({name[1:]: value for name, value in tags.items()})
    return Message(mti, {number: value for number, value in fields.items() if value is not None})


_NUMBERS = [number for number in range(2, 129) if number != 65]


def _value(number: int) -> st.SearchStrategy[str]:
    entry: Mapping[str, Any] = default_ascii[str(number)]
    low = entry["max_len"] if entry["len_type"] == 0 else 0
    return st.text(PRINTABLE, min_size=low, max_size=min(entry["max_len"], max(low, 60)))


@st.composite
def documents(draw: st.DrawFn) -> dict[str, str]:
    """Any message of the profile, as a pyiso8583 dictionary."""
    numbers = draw(st.sets(st.sampled_from(_NUMBERS), max_size=40))
    document = {"t": draw(st.text("0123456789", min_size=4, max_size=4))}
    return document | {str(number): draw(_value(number)) for number in sorted(numbers)}
