"""The signature against an HMAC computed here and an independent verifier (Stripe's)."""

from __future__ import annotations

import hashlib
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stripe import SignatureVerificationError, WebhookSignature

from engine.webhooks.signature import secret_of, sign

AT_S = 1_700_000_000
BODY = b'{"id":"0190","data":{"amount":"12.50"}}'
SECRET = secret_of(bytes(range(32)))
OTHER = secret_of(bytes(32))


def test_secret_is_prefix_and_32_bytes_in_base64url() -> None:
    assert SECRET == "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"


def test_header_holds_time_and_hmac_of_time_and_body() -> None:
    expected = hmac.new(SECRET.encode(), b"1700000000." + BODY, hashlib.sha256).hexdigest()
    assert sign(BODY, [SECRET], AT_S) == f"t=1700000000,v1={expected}"


@given(body=st.text(max_size=500).map(lambda text: text.encode("utf-8", "ignore")))
def test_independent_verifier_agrees(body: bytes) -> None:
    header = sign(body, [OTHER, SECRET], AT_S)
    assert WebhookSignature.verify_header(body.decode(), header, SECRET)
    with pytest.raises(SignatureVerificationError):
        WebhookSignature.verify_header(body.decode() + " ", header, SECRET)
