"""Digests of the encodings of another implementation, one for each block of random messages."""

from __future__ import annotations

import json
from collections.abc import Iterable
from hashlib import blake2b
from pathlib import Path
from typing import Final

COUNT: Final = 20_000
"""Random messages of each profile."""
BLOCK: Final = 500
SEED: Final = 8583
PATH: Final = Path(__file__).parent / "npm" / "recorded.json"


def digests(payloads: Iterable[bytes]) -> list[str]:
    """The digest of each ``BLOCK`` of ``payloads``."""
    found: list[str] = []
    digest = blake2b(digest_size=12)
    for number, payload in enumerate(payloads, 1):
        digest.update(len(payload).to_bytes(4, "big") + payload)
        if not number % BLOCK:
            found.append(digest.hexdigest())
            digest = blake2b(digest_size=12)
    return found


def recorded() -> dict[str, list[str]]:
    """The recorded digests by profile."""
    found: dict[str, list[str]] = json.loads(PATH.read_text("utf-8"))
    return found
