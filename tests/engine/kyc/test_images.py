"""Image types by their first bytes."""

from __future__ import annotations

import pytest

from engine.kyc.images import media_type_of


@pytest.mark.parametrize(
    ("head", "media_type"),
    [
        (b"\xff\xd8\xff\xe0\x00\x10JFIF", "image/jpeg"),
        (b"\x89PNG\r\n\x1a\n\x00", "image/png"),
        (b"RIFF\x24\x00\x00\x00WEBPVP8 ", "image/webp"),
        (b"RIFF\x24\x00\x00\x00WAVEfmt ", None),
        (b"\x89PNG", None),
        (b"GIF89a", None),
        (b"%PDF-1.7", None),
        (b"<svg xmlns=", None),
        (b"", None),
    ],
)
def test_media_types(head: bytes, media_type: str | None) -> None:
    assert media_type_of(head) == media_type
