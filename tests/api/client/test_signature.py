"""Signature verification for receivers, against signatures of the engine."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.limits import SIGNATURE_TOLERANCE_SECONDS
from engine.webhooks import signature as engine_signature
from engine.webhooks.signature import secret_of, sign
from stanchion import SIGNATURE_HEADER, SignatureError, verify_signature
from stanchion.signature import TOLERANCE_SECONDS
from stanchion.signature import verdict_of as verify

SECRET = "whsec_" + "a" * 43
BODY = b'{"id":"1"}'
AT_S = 1_700_000_000
DELIVERY = b'{"id":"0190","data":{"amount":"12.50"}}'
CURRENT = secret_of(bytes(range(32)))
OTHER = secret_of(bytes(32))


def test_client_and_engine_agree_on_header_and_tolerance() -> None:
    assert engine_signature.HEADER == SIGNATURE_HEADER
    assert SIGNATURE_TOLERANCE_SECONDS == TOLERANCE_SECONDS


def test_valid_signature_is_accepted() -> None:
    verify_signature(sign(BODY, [SECRET], int(time.time())), BODY, SECRET)
    verify_signature(sign(BODY, ["whsec_new", SECRET], 1000), BODY, ["whsec_old", SECRET], now=1000.9)
    verify_signature(sign(BODY, [SECRET], 1000), BODY, SECRET, now=2000, tolerance_seconds=1000)


@pytest.mark.parametrize(
    ("header", "verdict"),
    [
        (None, "missing"),
        ("nonsense", "malformed"),
        (sign(BODY + b" ", [SECRET], 1000), "no_match"),
        (sign(BODY, ["whsec_other"], 1000), "no_match"),
        (sign(BODY, [SECRET], 699), "outside_tolerance"),
        (sign(BODY, [SECRET], 1301), "outside_tolerance"),
    ],
)
def test_missing_malformed_wrong_or_old_signature_is_refused(header: str | None, verdict: str) -> None:
    with pytest.raises(SignatureError, match=verdict):
        verify_signature(header, BODY, SECRET, now=1000)


@given(
    body=st.binary(max_size=2_000), random=st.binary(min_size=32, max_size=32), age_s=st.integers(-300, 300)
)
def test_signed_body_verifies(body: bytes, random: bytes, age_s: int) -> None:
    secret = secret_of(random)
    assert verify(sign(body, [OTHER, secret], AT_S), body, [secret], AT_S + age_s) == "valid"


@given(
    body=st.binary(min_size=1, max_size=200), position=st.integers(min_value=0), change=st.integers(1, 255)
)
def test_changed_byte_of_the_body_does_not_verify(body: bytes, position: int, change: int) -> None:
    at = position % len(body)
    altered = body[:at] + bytes([body[at] ^ change]) + body[at + 1 :]
    assert verify(sign(body, [CURRENT], AT_S), altered, [CURRENT], AT_S) == "no_match"


@pytest.mark.parametrize("age_s", [-301, 301, 10**6])
def test_signature_outside_the_tolerance_is_refused(age_s: int) -> None:
    assert verify(sign(DELIVERY, [CURRENT], AT_S), DELIVERY, [CURRENT], AT_S + age_s) == "outside_tolerance"


def test_unsigned_time_is_refused() -> None:
    header = sign(DELIVERY, [CURRENT], AT_S).replace("t=1700000000", "t=1700000299")
    assert verify(header, DELIVERY, [CURRENT], AT_S + 299) == "no_match"


def test_either_secret_verifies_during_a_rotation() -> None:
    header = sign(DELIVERY, [CURRENT, OTHER], AT_S)
    assert header.count("v1=") == 2
    assert verify(header, DELIVERY, [CURRENT], AT_S) == verify(header, DELIVERY, [OTHER], AT_S) == "valid"
    assert verify(header, DELIVERY, [secret_of(b"x" * 32)], AT_S) == "no_match"


def test_elements_of_other_schemes_are_ignored() -> None:
    header = sign(DELIVERY, [CURRENT], AT_S)
    assert verify(f"v0=abc,{header},v2=def", DELIVERY, [CURRENT], AT_S) == "valid"
    assert verify(header.replace("v1=", "v0="), DELIVERY, [CURRENT], AT_S) == "malformed"


@pytest.mark.parametrize(
    "header",
    [
        "",
        "t",
        "t=,v1=",
        "t=1700000000",
        "v1=" + "a" * 64,
        "t=1700000000,v1=" + "a" * 63,
        "t=1700000000,v1=" + "A" * 64,
        "t=1700000000,v1=" + "a" * 65,
        "t=-5,v1=" + "a" * 64,
        "t=1_0,v1=" + "a" * 64,
        "t=١,v1=" + "a" * 64,
        "t=" + "1" * 13 + ",v1=" + "a" * 64,
        "t=1,t=2,v1=" + "a" * 64,
        "t=1;v1=" + "a" * 64,
        "t=1," + ",".join(["v1=" + "a" * 64] * 100),
    ],
)
def test_malformed_header_is_reported_as_malformed(header: str) -> None:
    assert verify(header, DELIVERY, [CURRENT], AT_S) == "malformed"
