"""3DS evidence is present only if it is complete and well-formed, and valid only under a key of the
programme."""

from __future__ import annotations

import base64
import hashlib
import hmac
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.pan import Masked, Pan
from engine.threeds import OWN_BYTES, authentication_value, check_evidence

VALUE = base64.b64encode(bytes(range(20))).decode()
PAN = "4111111111111111"
KEY, OLD_KEY, OTHER_KEY = (bytes([number]) * 32 for number in (1, 2, 3))
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
    assert check_evidence(value, reference, PAN) == outcome


def test_value_of_the_programmes_key_is_valid() -> None:
    value = authentication_value(KEY, PAN, REFERENCE, bytes(OWN_BYTES))
    assert check_evidence(value, REFERENCE, PAN, (KEY,)) == "valid"
    assert check_evidence(value, REFERENCE.upper(), Pan(PAN), (OTHER_KEY, KEY)) == "valid"
    assert check_evidence(Masked(value), REFERENCE, PAN, (KEY, OLD_KEY)) == "valid"
    assert check_evidence(value, REFERENCE, PAN) == "present"


def test_value_equals_the_documented_construction() -> None:
    own = bytes(range(12))
    data = PAN.encode() + b"|" + uuid.UUID(REFERENCE).bytes + own
    code = hmac.new(KEY, data, hashlib.sha256).digest()[:8]
    assert authentication_value(KEY, PAN, REFERENCE, own) == base64.b64encode(own + code).decode()
    with pytest.raises(ValueError, match="12 bytes"):
        authentication_value(KEY, PAN, REFERENCE, bytes(11))


def test_value_of_another_key_card_or_reference_is_invalid() -> None:
    value = authentication_value(KEY, PAN, REFERENCE, bytes(OWN_BYTES))
    assert check_evidence(value, REFERENCE, PAN, (OTHER_KEY,)) == "invalid"
    assert check_evidence(value, REFERENCE, PAN[:-1] + "2", (KEY,)) == "invalid"
    assert check_evidence(value, REFERENCE[:-1] + "e", PAN, (KEY,)) == "invalid"
    assert check_evidence(value, None, PAN, (KEY,)) == "malformed"


@given(st.integers(0, 159))
def test_value_with_one_changed_bit_is_invalid(bit: int) -> None:
    raw = bytearray(base64.b64decode(authentication_value(KEY, PAN, REFERENCE, bytes(OWN_BYTES))))
    raw[bit // 8] ^= 1 << bit % 8
    assert check_evidence(base64.b64encode(raw).decode(), REFERENCE, PAN, (KEY,)) == "invalid"
