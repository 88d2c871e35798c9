"""3DS evidence is present only if it is complete and well-formed."""

from __future__ import annotations

import base64

import pytest

from engine.threeds import check_evidence

VALUE = base64.b64encode(bytes(range(20))).decode()
REFERENCE = "0b9f2c0a-6b1e-4b37-9d5f-3c1f0a2b4c5d"


@pytest.mark.parametrize(
    ("value", "reference", "outcome"),
    [
        (None, None, "absent"),
        (VALUE, REFERENCE, "present"),
        (VALUE, REFERENCE.upper(), "present"),
        (VALUE, None, "malformed"),
        (None, REFERENCE, "malformed"),
        (VALUE, "no-uuid", "malformed"),
        (VALUE[:-1], REFERENCE, "malformed"),
        (base64.b64encode(bytes(19)).decode(), REFERENCE, "malformed"),
        (base64.b64encode(bytes(21)).decode(), REFERENCE, "malformed"),
        (VALUE.replace(VALUE[0], "*"), REFERENCE, "malformed"),
        ("", "", "malformed"),
    ],
)
def test_authentication_value_and_reference(value: str | None, reference: str | None, outcome: str) -> None:
    assert check_evidence(value, reference) == outcome
