"""The signature against its own verifier, an HMAC computed here, and an independent verifier (Stripe's)."""

from __future__ import annotations

import hashlib
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stripe import SignatureVerificationError, WebhookSignature

from engine.webhooks.signature import secret_of, sign, verify

AT_S = 1_700_000_000
BODY = b'{"id":"0190","data":{"amount":"12.50"}}'
SECRET = secret_of(bytes(range(32)))
OTHER = secret_of(bytes(32))


def test_secret_is_prefix_and_32_bytes_in_base64url() -> None:
    assert SECRET == "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"


def test_header_holds_time_and_hmac_of_time_and_body() -> None:
    expected = hmac.new(SECRET.encode(), b"1700000000." + BODY, hashlib.sha256).hexdigest()
    assert sign(BODY, [SECRET], AT_S) == f"t=1700000000,v1={expected}"


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
    assert verify(sign(body, [SECRET], AT_S), altered, [SECRET], AT_S) == "no_match"


@pytest.mark.parametrize("age_s", [-301, 301, 10**6])
def test_signature_outside_the_tolerance_is_refused(age_s: int) -> None:
    assert verify(sign(BODY, [SECRET], AT_S), BODY, [SECRET], AT_S + age_s) == "outside_tolerance"


def test_unsigned_time_is_refused() -> None:
    header = sign(BODY, [SECRET], AT_S).replace("t=1700000000", "t=1700000299")
    assert verify(header, BODY, [SECRET], AT_S + 299) == "no_match"


def test_either_secret_verifies_during_a_rotation() -> None:
    header = sign(BODY, [SECRET, OTHER], AT_S)
    assert header.count("v1=") == 2
    assert verify(header, BODY, [SECRET], AT_S) == verify(header, BODY, [OTHER], AT_S) == "valid"
    assert verify(header, BODY, [secret_of(b"x" * 32)], AT_S) == "no_match"


def test_elements_of_other_schemes_are_ignored() -> None:
    header = sign(BODY, [SECRET], AT_S)
    assert verify(f"v0=abc,{header},v2=def", BODY, [SECRET], AT_S) == "valid"
    assert verify(header.replace("v1=", "v0="), BODY, [SECRET], AT_S) == "malformed"


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
    assert verify(header, BODY, [SECRET], AT_S) == "malformed"


@given(body=st.text(max_size=500).map(lambda text: text.encode("utf-8", "ignore")))
def test_independent_verifier_agrees(body: bytes) -> None:
    header = sign(body, [OTHER, SECRET], AT_S)
    assert WebhookSignature.verify_header(body.decode(), header, SECRET)
    with pytest.raises(SignatureVerificationError):
        WebhookSignature.verify_header(body.decode() + " ", header, SECRET)
