"""Signature verification for receivers. The engine's own tests cover the format."""

from __future__ import annotations

import time

import pytest

from engine.webhooks.signature import sign
from stanchion import SignatureError, verify_signature

SECRET = "whsec_" + "a" * 43
BODY = b'{"id":"1"}'


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
