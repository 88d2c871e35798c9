"""The signature of a delivery: ``t=<unix seconds>,v1=<hex HMAC-SHA256>`` (``ops/docs/WEBHOOKS.md``).

The signed text is the time, a full stop, and the raw body. The key is the UTF-8 of the whole secret including
``whsec_``. During a rotation the header has one ``v1`` for each active secret, and one match suffices.
"""

from __future__ import annotations

import base64
import hmac
import re
from collections.abc import Sequence
from typing import Final, Literal

from engine.limits import SIGNATURE_TOLERANCE_SECONDS

HEADER: Final = "X-Platform-Signature"
SECRET_PREFIX: Final = "whsec_"
SECRET_RANDOM_BYTES: Final = 32

Verdict = Literal["valid", "malformed", "no_match", "outside_tolerance"]
"""The result of a verification. ``outside_tolerance`` implies that the signature matches."""

_TIME: Final = re.compile(r"[0-9]{1,12}")
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_HEADER_CHARS_MAX: Final = 4096


def secret_of(random: bytes) -> str:
    """The secret of ``SECRET_RANDOM_BYTES`` random bytes: visible ASCII without padding."""
    assert len(random) == SECRET_RANDOM_BYTES
    return SECRET_PREFIX + base64.urlsafe_b64encode(random).rstrip(b"=").decode("ascii")


def sign(body: bytes, secrets: Sequence[str], at_s: int) -> str:
    """The header's value for ``body`` signed at ``at_s`` (Unix seconds) with each of ``secrets``."""
    signed = b"%d.%b" % (at_s, body)
    return ",".join((f"t={at_s}", *(f"v1={_digest(secret, signed)}" for secret in secrets)))


def verify(
    header: str,
    body: bytes,
    secrets: Sequence[str],
    now_s: int,
    tolerance_s: int = SIGNATURE_TOLERANCE_SECONDS,
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
