"""Frames on a byte stream: a two-byte big-endian length, then that many bytes (wire profile, transport).

Sans-I/O: bytes go in as they arrive, whole frames come out. A frame above the limit is skipped to its end,
so that one bad length costs one answer and not the stream; only its head is kept, because a header may
still be readable in it.
"""

from __future__ import annotations

from typing import Final

import msgspec

from engine.limits import FRAME_BYTES_MAX

LENGTH_BYTES: Final = 2
_LENGTH_MAX: Final = 2 ** (8 * LENGTH_BYTES) - 1

assert FRAME_BYTES_MAX <= _LENGTH_MAX


class FrameSizeError(ValueError):
    """A payload of a size that no peer would accept was about to be framed."""


class BadFrame(msgspec.Struct, frozen=True):
    """A frame whose length is refused: empty, or above the limit."""

    announced_bytes: int
    head: bytes
    """The first bytes of an oversized frame, at most ``FRAME_BYTES_MAX``."""

    def __repr__(self) -> str:
        return f"BadFrame(announced_bytes={self.announced_bytes})"


def frame(payload: bytes) -> bytes:
    """``payload`` behind its length."""
    if not 0 < len(payload) <= FRAME_BYTES_MAX:
        raise FrameSizeError(f"a frame holds 1 to {FRAME_BYTES_MAX} bytes, not {len(payload)}")
    return len(payload).to_bytes(LENGTH_BYTES, "big") + payload


class FrameCutter:
    """Cuts one connection's bytes into frames; holds at most one unfinished frame."""

    __slots__ = ("_held", "_oversized", "_to_skip")

    def __init__(self) -> None:
        self._held = b""
        self._oversized: BadFrame | None = None
        self._to_skip = 0

    @property
    def partial(self) -> bool:
        """Whether a frame has begun that has not ended."""
        return bool(self._held) or self._oversized is not None

    def feed(self, received: bytes) -> list[bytes | BadFrame]:
        """All frames that ``received`` completes, in order."""
        data = self._held + received if self._held else received
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
                    break  # not enough yet to keep the whole head
                self._oversized = BadFrame(announced, data[start : start + FRAME_BYTES_MAX])
                self._to_skip = announced
                at = start + self._skip(data[start:], frames)
        self._held = data[at:]
        return frames

    def _skip(self, data: bytes, frames: list[bytes | BadFrame]) -> int:
        """Consumes what belongs to an oversized frame; its ``BadFrame`` is reported at its end."""
        if self._oversized is None:
            return 0
        skipped = min(self._to_skip, len(data))
        self._to_skip -= skipped
        if self._to_skip == 0:
            frames.append(self._oversized)
            self._oversized = None
        return skipped
