"""Frames on a byte stream: a two-byte big-endian length and a payload (``ops/docs/WIRE.md``, transport).

Sans-I/O: ``feed`` takes received bytes and returns complete frames. A frame above the limit is skipped to its
end, so one bad length does not break the stream. Its head is kept, because it may contain a readable header.
"""

from __future__ import annotations

from typing import Final

import msgspec

from engine.limits import FRAME_BYTES_MAX

LENGTH_BYTES: Final = 2
_LENGTH_MAX: Final = 2 ** (8 * LENGTH_BYTES) - 1

assert FRAME_BYTES_MAX <= _LENGTH_MAX


class FrameSizeError(ValueError):
    """The payload does not fit a frame."""


class BadFrame(msgspec.Struct, frozen=True):
    """A frame of a refused length: empty, or above the limit."""

    announced_bytes: int
    head: bytes
    """The first bytes of an oversized frame, at most ``FRAME_BYTES_MAX``."""

    def __repr__(self) -> str:
        return f"BadFrame(announced_bytes={self.announced_bytes})"


def frame(payload: bytes) -> bytes:
    """The frame of ``payload``."""
    if not 0 < len(payload) <= FRAME_BYTES_MAX:
        raise FrameSizeError(f"a frame holds 1 to {FRAME_BYTES_MAX} bytes, not {len(payload)}")
    return len(payload).to_bytes(LENGTH_BYTES, "big") + payload


class FrameCutter:
    """Cuts the bytes of one connection into frames. Buffers at most one incomplete frame."""

    __slots__ = ("_buffered", "_oversized", "_to_skip")

    def __init__(self) -> None:
        self._buffered = b""
        self._oversized: BadFrame | None = None
        self._to_skip = 0

    @property
    def partial(self) -> bool:
        """Whether a frame is incomplete."""
        return bool(self._buffered) or self._oversized is not None

    def feed(self, received: bytes) -> list[bytes | BadFrame]:
        """The frames that ``received`` completes, in order."""
        data = self._buffered + received if self._buffered else received
        frames: list[bytes | BadFrame] = []
        at, end = self._skip(data, frames), len(data)
        while end - at >= LENGTH_BYTES:
            announced = data[at] << 8 | data[at + 1]
            start = at + LENGTH_BYTES
            if 0 < announced <= FRAME_BYTES_MAX:
                if start + announced > end:
                    break
                frames.append(data[start : start + announced])
                at = start + announced
            elif announced == 0:
                frames.append(BadFrame(0, b""))
                at = start
            else:
                if end - start < FRAME_BYTES_MAX:
                    break  # the head is not complete yet
                self._oversized = BadFrame(announced, data[start : start + FRAME_BYTES_MAX])
                self._to_skip = announced
                at = start + self._skip(data[start:], frames)
        self._buffered = data[at:]
        return frames

    def _skip(self, data: bytes, frames: list[bytes | BadFrame]) -> int:
        """Skip bytes of an oversized frame. Adds its ``BadFrame`` to ``frames`` at its end."""
        if self._oversized is None:
            return 0
        skipped = min(self._to_skip, len(data))
        self._to_skip -= skipped
        if self._to_skip == 0:
            frames.append(self._oversized)
            self._oversized = None
        return skipped
