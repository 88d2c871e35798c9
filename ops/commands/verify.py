"""``stanchion verify``: whether a delivery that was stored somewhere is Stanchion's own."""

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
    """Return if ``header`` signs the bytes of the file ``source``, or of standard input for ``-``.

    ``any_time``: however long ago that was. Raises SignatureError, or OSError for a file that cannot be
    read.
    """
    body = sys.stdin.buffer.read() if source == STANDARD_INPUT else Path(source).read_bytes()
    # The very bytes: an editor's newline at the end is a change like any other.
    if any_time:
        verify_signature(header, body, secrets, tolerance_seconds=FOREVER_SECONDS, now=now)
    else:
        verify_signature(header, body, secrets, now=now)
