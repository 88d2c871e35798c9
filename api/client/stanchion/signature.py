"""Whether a webhook delivery is Stanchion's own (spec 6.2)."""

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
    """Return if ``header`` (``X-Platform-Signature``) signs ``body``, the raw bytes as they came. Raises
    SignatureError.

    ``secrets``: the endpoint's signing secret, or the two that you know while you rotate it. ``now``: Unix
    seconds, by default this machine's.
    """
    known = [secrets] if isinstance(secrets, str) else secrets
    at = int(time.time() if now is None else now)
    verdict = "missing" if header is None else verify(header, body, known, at, tolerance_seconds)
    if verdict != "valid":
        raise SignatureError(f"the signature is not to be believed: {verdict}")
