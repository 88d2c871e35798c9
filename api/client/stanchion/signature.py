"""Verification of the signature of a webhook delivery or a decision call.

The header is ``t=<unix seconds>,v1=<hex HMAC-SHA256>``. The signed text is the time, a full stop, and the raw
body; the key is the UTF-8 of the whole secret including ``whsec_``. During a rotation the header has one
``v1`` for each active secret, and one match suffices.
"""

from __future__ import annotations

import hmac
import re
import time
from collections.abc import Sequence
from typing import Final, Literal

from stanchion.errors import SignatureError

__all__ = ["SIGNATURE_HEADER", "TOLERANCE_SECONDS", "Verdict", "verdict_of", "verify_signature"]

SIGNATURE_HEADER: Final = "X-Platform-Signature"
TOLERANCE_SECONDS: Final = 300
"""Largest accepted difference between the signed time and this machine's clock."""

Verdict = Literal["valid", "malformed", "no_match", "outside_tolerance"]
"""The result of a verification. ``outside_tolerance`` implies that the signature matches."""

_TIME: Final = re.compile(r"[0-9]{1,12}")
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_HEADER_CHARS_MAX: Final = 4096


def verify_signature(
    header: str | None,
    body: bytes,
    secrets: str | Sequence[str],
    *,
    tolerance_seconds: int = TOLERANCE_SECONDS,
    now: float | None = None,
) -> None:
    """Check that ``header`` (``X-Platform-Signature``) signs ``body``, the raw bytes as received. Raises
    SignatureError otherwise.

    ``secrets`` is the endpoint's signing secret, or both secrets during a rotation. ``now`` is in Unix
    seconds; the default is this machine's clock."""
    known = [secrets] if isinstance(secrets, str) else secrets
    at = int(time.time() if now is None else now)
    verdict = "missing" if header is None else verdict_of(header, body, known, at, tolerance_seconds)
    if verdict != "valid":
        raise SignatureError(f"the signature is not valid: {verdict}")


def verdict_of(
    header: str,
    body: bytes,
    secrets: Sequence[str],
    now_s: int,
    tolerance_s: int = TOLERANCE_SECONDS,
) -> Verdict:
    """Whether ``header`` signs exactly these bytes with one of ``secrets``, within the time tolerance.

    All digests are compared, each in constant time. Unknown elements are ignored, so that another scheme can
    be added to ``v1``.
    """
    read = _read(header)
    if read is None:
        return "malformed"
    time_text, digests = read
    signed = b"%b.%b" % (time_text.encode("ascii"), body)
    expected = [_digest(secret, signed) for secret in secrets]
    matches = [hmac.compare_digest(one, given) for one in expected for given in digests]
    if not any(matches):
        return "no_match"
    return "valid" if abs(now_s - int(time_text)) <= tolerance_s else "outside_tolerance"


def _read(header: str) -> tuple[str, list[str]] | None:
    """The time and the ``v1`` digests; ``None`` unless the header has exactly one time and at least one
    digest."""
    if len(header) > _HEADER_CHARS_MAX:
        return None
    times: list[str] = []
    digests: list[str] = []
    for element in header.split(","):
        name, equals, value = element.strip().partition("=")
        if not equals:
            return None
        if name == "t":
            times.append(value)
        elif name == "v1":
            digests.append(value)
    well_formed = len(times) == 1 and digests and all(_DIGEST.fullmatch(digest) for digest in digests)
    return (times[0], digests) if well_formed and _TIME.fullmatch(times[0]) else None


def _digest(secret: str, signed: bytes) -> str:
    return hmac.digest(secret.encode(), signed, "sha256").hex()
