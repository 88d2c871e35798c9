"""A profile takes the sections that it does not have from the one that it is based on."""

from __future__ import annotations

from engine.iso8583.codec import Encodings
from engine.iso8583.private_data import TlvFormat
from engine.iso8583.profiles.description import Description, Element, Frame, merged

BASE = Description(
    name="base",
    encodings=Encodings(text="cp037"),
    echo=(7, 11),
    elements={"60": Element("n3"), "61": Element("n4")},
    tlv={"48": TlvFormat(2, 2)},
)


def test_absent_sections_are_inherited_and_present_ones_replaced() -> None:
    over = Description(name="own", echo=(7,), frame=Frame("ascii-4"))
    together = merged(BASE, over)
    assert (together.name, together.echo, together.frame) == ("own", (7,), Frame("ascii-4"))
    assert together.encodings == BASE.encodings


def test_elements_and_tlv_formats_are_merged_one_by_one() -> None:
    over = Description(name="own", elements={"61": Element("absent")}, tlv={"63": TlvFormat(1, 3)})
    together = merged(BASE, over)
    assert together.elements == {"60": Element("n3"), "61": Element("absent")}
    assert together.tlv == {"48": TlvFormat(2, 2), "63": TlvFormat(1, 3)}
