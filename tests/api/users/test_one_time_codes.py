"""One-time codes after RFC 6238, and recovery codes."""

from __future__ import annotations

import pytest

from actors.vault import Vault
from api.users.one_time_codes import (
    new_recovery_codes,
    recovery_digest,
    setup_address,
    step_of,
)

SECRET = b"12345678901234567890"
"""Of the test vectors in RFC 6238, appendix B (SHA-1). Its codes have 8 digits; ours are the last 6."""


@pytest.mark.parametrize(
    ("seconds", "code"),
    [(59, "287082"), (1111111109, "081804"), (1111111111, "050471"), (20000000000, "353130")],
)
def test_codes_are_those_of_the_rfc(seconds: int, code: str) -> None:
    assert step_of(SECRET, code, seconds * 1000, 0) == seconds // 30


@pytest.mark.parametrize(
    ("seconds", "accepted"), [(0, True), (30, True), (-30, True), (60, False), (-60, False)]
)
def test_code_is_accepted_one_step_around_its_own(seconds: int, accepted: bool) -> None:
    found = step_of(SECRET, "081804", (1111111109 + seconds) * 1000, 0)
    assert (found is not None) is accepted


def test_code_is_accepted_once() -> None:
    step = step_of(SECRET, "081804", 1111111109_000, 0)
    assert step is not None
    assert step_of(SECRET, "081804", 1111111109_000, step) is None


def test_setup_address_is_read_by_authenticators() -> None:
    address = setup_address(SECRET, "ada@example.com")
    assert address == (
        "otpauth://totp/Stanchion%3Aada%40example.com"
        "?secret=GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ&issuer=Stanchion&digits=6&period=30"
    )


def test_recovery_codes_are_typed_in_any_form(vault: Vault) -> None:
    codes = new_recovery_codes()
    assert len(set(codes)) == 10
    digest = recovery_digest(vault, codes[0])
    assert recovery_digest(vault, codes[0].upper().replace("-", " ")) == digest
    assert recovery_digest(vault, codes[1]) != digest
