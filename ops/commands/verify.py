"""``stanchion verify``: checks whether a stored delivery was signed by Stanchion."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from stanchion import verify_signature

STANDARD_INPUT: Final = "-"
FOREVER_SECONDS: Final = 10**12


def verify_delivery(
    source: str, header: str, secrets: Sequence[str], *, any_time: bool = False, now: float | None = None
) -> None:
    """Return if ``header`` signs the bytes of the file ``source`` (``-``: standard input).

    ``any_time``: accept signatures of any age. Raises SignatureError, or OSError if the file cannot be read.
    """
    body = sys.stdin.buffer.read() if source == STANDARD_INPUT else Path(source).read_bytes()
    # Exact bytes: even a newline added by an editor invalidates the signature.
    if any_time:
        verify_signature(header, body, secrets, tolerance_seconds=FOREVER_SECONDS, now=now)
    else:
        verify_signature(header, body, secrets, now=now)
