"""Image types by their first bytes; the sender's media type is not trusted."""

from __future__ import annotations

from typing import Final

PNG: Final = b"\x89PNG\r\n\x1a\n"
JPEG: Final = b"\xff\xd8\xff"

MEDIA_TYPES: Final = ("image/jpeg", "image/png", "image/webp")
"""Accepted media types. The capture page converts camera images to the first of them."""


def media_type_of(picture: bytes) -> str | None:
    """The media type of ``picture``, or ``None`` when it is none of ``MEDIA_TYPES``."""
    if picture.startswith(JPEG):
        return "image/jpeg"
    if picture.startswith(PNG):
        return "image/png"
    if picture[:4] == b"RIFF" and picture[8:12] == b"WEBP":
        return "image/webp"
    return None
