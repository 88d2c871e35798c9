"""Formats of data elements are read from the notation of ISO 8583."""

from __future__ import annotations

import pytest

from engine.iso8583.formats import FieldFormat, read_format, read_table


@pytest.mark.parametrize(
    ("notation", "kind", "size", "prefix_digits"),
    [
        ("n6", "n", 6, 0),
        ("n..11", "n", 11, 2),
        ("z...104", "z", 104, 3),
        ("b8", "b", 8, 0),
        ("b...255", "b", 255, 3),
        ("ans....4000", "text", 4000, 4),
        ("an12", "text", 12, 0),
        ("x+n8", "text", 9, 0),
    ],
)
def test_notation_gives_kind_size_and_prefix(notation: str, kind: str, size: int, prefix_digits: int) -> None:
    read = read_format(48, notation, "name")
    assert (read.kind, read.size, read.prefix_digits) == (kind, size, prefix_digits)


@pytest.mark.parametrize(
    "notation", ["", "n", "n0", "q6", "n.6", "n.....6", "n 6", "n..100", "an..1000", "6n"]
)
def test_other_notation_is_refused(notation: str) -> None:
    with pytest.raises(ValueError, match=r"format|prefix"):
        read_format(48, notation, "name")


def test_table_has_a_line_for_an_element_or_a_range() -> None:
    assert read_table("2 n..19 Number\n 60-61 ans...999 Reserved") == {
        2: FieldFormat(2, "Number", "n", 19, 2),
        60: FieldFormat(60, "Reserved", "text", 999, 3),
        61: FieldFormat(61, "Reserved", "text", 999, 3),
    }
