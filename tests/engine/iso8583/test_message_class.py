"""Each message has one class."""

from __future__ import annotations

import pytest

from engine.iso8583.content_reader import read
from engine.iso8583.message_class import MESSAGE_CLASSES, message_class
from tests.support.engine.iso8583.messages import ORIGINAL, message

CASES = [
    ("authorization", "0100", {}, {}),
    ("authorization", "0101", {}, {}),
    ("authorization", "0100", {4: "000000000000"}, {}),
    ("authorization", "0100", {3: "010000"}, {}),
    ("authorization", "0100", {}, {"t04": "SN1", "t06": "INC"}),
    ("refund", "0100", {3: "200000"}, {}),
    ("refund", "0220", {3: "200000"}, {}),
    ("refund", "0220", {3: "200000", 90: ORIGINAL}, {}),
    ("advice", "0120", {}, {}),
    ("advice", "0121", {90: ORIGINAL}, {}),
    ("presentment", "0220", {90: ORIGINAL}, {}),
    ("presentment", "0221", {}, {"t04": "SN1"}),
    ("force_post", "0220", {}, {}),
    ("reversal", "0400", {90: ORIGINAL}, {}),
    ("reversal", "0420", {}, {"t04": "SN1"}),
]


@pytest.mark.parametrize(("class_", "mti", "fields", "tags"), CASES)
def test_class_of_each_message(class_: str, mti: str, fields: dict[int, str], tags: dict[str, str]) -> None:
    changes: dict[int, str | None] = {**fields}
    assert message_class(read(message(changes, mti=mti, **tags))) == class_


def test_every_class_has_a_case() -> None:
    assert {class_ for class_, *_ in CASES} == set(MESSAGE_CLASSES)
