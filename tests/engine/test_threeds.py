"""Authentication evidence counts only when it is complete and well-formed."""

from __future__ import annotations

import base64

import pytest

from engine.threeds import judge

VALUE = base64.b64encode(bytes(range(20))).decode()
REFERENCE = "0b9f2c0a-6b1e-4b37-9d5f-3c1f0a2b4c5d"


@pytest.mark.parametrize(
    ("value", "reference", "outcome"),
    [
        (None, None, "absent"),
        (VALUE, REFERENCE, "valid"),
        (VALUE, REFERENCE.upper(), "valid"),
        (VALUE, None, "invalid"),
        (None, REFERENCE, "invalid"),
        (VALUE, "no-uuid", "invalid"),
        (VALUE[:-1], REFERENCE, "invalid"),
        (base64.b64encode(bytes(19)).decode(), REFERENCE, "invalid"),
        (base64.b64encode(bytes(21)).decode(), REFERENCE, "invalid"),
        (VALUE.replace(VALUE[0], "*"), REFERENCE, "invalid"),
        ("", "", "invalid"),
    ],
)
def test_judge(value: str | None, reference: str | None, outcome: str) -> None:
    assert judge(value, reference) == outcome
