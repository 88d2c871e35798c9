"""Verification of the signature of a webhook delivery or a decision call."""

from __future__ import annotations

import time
from collections.abc import Sequence

from engine.limits import SIGNATURE_TOLERANCE_SECONDS
from engine.webhooks.signature import HEADER as SIGNATURE_HEADER
from engine.webhooks.signature import verify
from stanchion.errors import SignatureError

__all__ = ["SIGNATURE_HEADER", "verify_signature"]


def verify_signature(
    header: str | None,
    body: bytes,
    secrets: str | Sequence[str],
    *,
    tolerance_seconds: int = SIGNATURE_TOLERANCE_SECONDS,
    now: float | None = None,
) -> None:
    """Check that ``header`` (``X-Platform-Signature``) signs ``body``, the raw bytes as received. Raises
    SignatureError otherwise.

    ``secrets`` is the endpoint's signing secret, or both secrets during a rotation. ``now`` is in Unix
    seconds; the default is this machine's clock."""
    known = [secrets] if isinstance(secrets, str) else secrets
    at = int(time.time() if now is None else now)
    verdict = "missing" if header is None else verify(header, body, known, at, tolerance_seconds)
    if verdict != "valid":
        raise SignatureError(f"the signature is not valid: {verdict}")
