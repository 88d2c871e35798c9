"""The envelope of an event's deliveries."""

from __future__ import annotations

import msgspec

from engine.instant import to_text


def envelope(id_: str, type_: str, created_ms: int, data: str) -> bytes:
    """The exact bytes to sign and send.

    ``data`` is the stored JSON text, unchanged, so every delivery of an event has the same bytes, including
    redeliveries.
    """
    return msgspec.json.encode(
        {"id": id_, "type": type_, "created_at": to_text(created_ms), "data": msgspec.Raw(data.encode())}
    )
