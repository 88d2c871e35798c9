"""The envelope that every delivery of an event carries (spec 2.8)."""

from __future__ import annotations

import msgspec

from engine.instant import to_text


def envelope(id_: str, type_: str, created_ms: int, data: str) -> bytes:
    """The exact bytes that are signed and sent.

    ``data`` is the JSON text stored with the event, unchanged, so every delivery of an event has the same
    bytes, redeliveries included.
    """
    return msgspec.json.encode(
        {"id": id_, "type": type_, "created_at": to_text(created_ms), "data": msgspec.Raw(data.encode())}
    )
