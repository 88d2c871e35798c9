"""One-time codes of users (TOTP, RFC 6238: SHA-1, 6 digits, 30 seconds), and recovery codes."""

from __future__ import annotations

import base64
import hmac
import os
import secrets
from collections.abc import Sequence
from typing import Final
from urllib.parse import quote, urlencode

from cryptography.hazmat.primitives.hashes import SHA1
from cryptography.hazmat.primitives.twofactor.totp import TOTP

from actors.vault import Vault
from engine.limits import RECOVERY_CODES

SEAL: Final = "user-totp"
RECOVERY_PURPOSE: Final = "user-recovery-code"
STEP_SECONDS: Final = 30
DIGITS: Final = 6
SECRET_BYTES: Final = 20
_SKEW_STEPS: Final = 1
"""A code of the step before or after is accepted: clocks differ, and typing takes time."""
_RECOVERY_BYTES: Final = 10


def new_totp_secret() -> bytes:
    """A new secret of 160 bits, as RFC 4226 recommends."""
    return os.urandom(SECRET_BYTES)


def as_text(secret: bytes) -> str:
    """The secret in base32, as people type it into an authenticator."""
    return base64.b32encode(secret).decode()


def setup_address(secret: bytes, email: str) -> str:
    """The ``otpauth:`` address of a secret, which authenticators read from a QR code."""
    query = {"secret": as_text(secret), "issuer": "Stanchion", "digits": DIGITS, "period": STEP_SECONDS}
    return f"otpauth://totp/{quote(f'Stanchion:{email}')}?{urlencode(query)}"


def step_of(secret: bytes, code: str, now_ms: int, after: int) -> int | None:
    """The time step whose code is ``code``, if it is later than the step ``after``; else ``None``. A code is
    accepted once: its step becomes the next ``after``."""
    totp = TOTP(secret, DIGITS, SHA1(), STEP_SECONDS)
    now = now_ms // 1000 // STEP_SECONDS
    found = None
    for step in range(now - _SKEW_STEPS, now + _SKEW_STEPS + 1):
        expected = totp.generate(step * STEP_SECONDS)
        if hmac.compare_digest(expected, code.encode()) and step > after:
            found = step
    return found


def new_recovery_codes() -> list[str]:
    """New recovery codes of 80 random bits, for people to keep."""
    codes = (secrets.token_bytes(_RECOVERY_BYTES) for _ in range(RECOVERY_CODES))
    texts = (base64.b32encode(code).decode().lower() for code in codes)
    return ["-".join(text[start : start + 4] for start in range(0, len(text), 4)) for text in texts]


def recovery_digest(vault: Vault, code: str) -> bytes:
    """The keyed digest in which a recovery code is stored. Spaces, dashes and case do not differ."""
    plain = "".join(each for each in code.lower() if each.isalnum())
    return vault.digest(RECOVERY_PURPOSE, plain.encode())


def recovery_digests(vault: Vault, codes: Sequence[str]) -> list[bytes]:
    """The digests of all ``codes``."""
    return [recovery_digest(vault, code) for code in codes]
