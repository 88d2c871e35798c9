"""Frames on a byte stream: a header that announces a length, and a payload (``ops/docs/WIRE.md``, transport).

Sans-I/O: ``feed`` takes received bytes and returns complete frames. A frame above the limit is skipped to its
end, so one bad length does not break the stream. Its head is kept, because it may contain a readable header.
A length that is not a number leaves the end of the frame unknown: the stream is broken.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal

import msgspec

from engine.limits import FRAME_BYTES_MAX

LengthKind = Literal["binary-2", "binary-4", "ascii-4", "in-header"]
LENGTH_BYTES: Final = 2
"""Bytes of ``binary-2``, the usual length header."""
_LENGTH_MAX: Final = 2 ** (8 * LENGTH_BYTES) - 1

assert FRAME_BYTES_MAX <= _LENGTH_MAX


class FrameSizeError(ValueError):
    """The payload does not fit a frame."""


class BadFrame(msgspec.Struct, frozen=True):
    """A frame of a refused length: empty, or above the limit."""

    announced_bytes: int
    head: bytes
    """The first bytes of an oversized frame, at most ``FRAME_BYTES_MAX``."""
    broken: bool = False
    """Whether the length is not a number, so that no later frame can be found."""

    def __repr__(self) -> str:
        return f"BadFrame(announced_bytes={self.announced_bytes})"


class Framing(msgspec.Struct, frozen=True):
    """How a profile announces the length of a payload.

    ``binary-2`` and ``binary-4`` are big-endian numbers, ``ascii-4`` is four digits. ``in-header``: a message
    header of ``header_bytes``, which is part of the payload, contains the length as a big-endian number of
    ``length_bytes`` at ``length_at``.
    """

    kind: LengthKind = "binary-2"
    header_bytes: int = 0
    length_at: int = 0
    length_bytes: int = LENGTH_BYTES
    counts_header: bool = True
    """Whether the length in a message header includes that header."""

    @property
    def before_payload(self) -> int:
        """Bytes of the frame before its payload."""
        return {"binary-2": 2, "binary-4": 4, "ascii-4": 4, "in-header": 0}[self.kind]

    @property
    def needed(self) -> int:
        """Bytes from the start of a frame that contain its length."""
        return self.header_bytes if self.kind == "in-header" else self.before_payload

    def frame(self, payload: bytes) -> bytes:
        """The frame of ``payload``. Raises ``FrameSizeError``."""
        size = len(payload)
        if not 0 < size <= FRAME_BYTES_MAX:
            raise FrameSizeError(f"a frame holds 1 to {FRAME_BYTES_MAX} bytes, not {size}")
        if self.kind == "binary-2":
            return size.to_bytes(2, "big") + payload
        if self.kind == "binary-4":
            return size.to_bytes(4, "big") + payload
        if self.kind == "ascii-4":
            return b"%04d%s" % (size, payload)
        return self._with_length(payload)

    def reader(self) -> Callable[[bytes, int], int]:
        """A function that reads the length of the payload from the ``needed`` bytes at a position: 0 for an
        empty one, -1 if it is not a number."""
        return {
            "binary-2": _read_binary_2,
            "binary-4": _read_binary_4,
            "ascii-4": _read_ascii_4,
            "in-header": self._read_in_header,
        }[self.kind]

    def _with_length(self, payload: bytes) -> bytes:
        size = len(payload) - (0 if self.counts_header else self.header_bytes)
        at, stop = self.length_at, self.length_at + self.length_bytes
        if not self.header_bytes <= len(payload) or size >= 256**self.length_bytes:
            raise FrameSizeError("the payload does not fit its header")
        return payload[:at] + size.to_bytes(self.length_bytes, "big") + payload[stop:]

    def _read_in_header(self, data: bytes, at: int) -> int:
        start = at + self.length_at
        announced = int.from_bytes(data[start : start + self.length_bytes], "big")
        total = announced if self.counts_header else announced + self.header_bytes
        # A header alone carries no message; less than a header cannot be skipped.
        return total if total >= self.header_bytes else -1


DEFAULT_FRAMING: Final = Framing()


def _read_binary_2(data: bytes, at: int) -> int:
    return data[at] << 8 | data[at + 1]


def _read_binary_4(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 4], "big")


def _read_ascii_4(data: bytes, at: int) -> int:
    digits = data[at : at + 4]
    return int(digits) if digits.isdigit() else -1


class FrameCutter:
    """Cuts the bytes of one connection into frames. Buffers at most one incomplete frame."""

    __slots__ = ("_before", "_broken", "_buffered", "_needed", "_oversized", "_read_length", "_to_skip")

    def __init__(self, framing: Framing = DEFAULT_FRAMING) -> None:
        self._before = framing.before_payload
        self._needed = framing.needed
        self._read_length = framing.reader()
        self._buffered = b""
        self._oversized: BadFrame | None = None
        self._to_skip = 0
        self._broken = False

    @property
    def partial(self) -> bool:
        """Whether a frame is incomplete."""
        return bool(self._buffered) or self._oversized is not None

    def feed(self, received: bytes) -> list[bytes | BadFrame]:
        """The frames that ``received`` completes, in order. A broken stream has no more frames."""
        if self._broken:
            return []
        data = self._buffered + received if self._buffered else received
        frames: list[bytes | BadFrame] = []
        at, end = self._skip(data, frames), len(data)
        before, needed, read_length = self._before, self._needed, self._read_length
        while end - at >= needed:
            announced = read_length(data, at)
            start = at + before
            if 0 < announced <= FRAME_BYTES_MAX:
                if start + announced > end:
                    break
                frames.append(data[start : start + announced])
                at = start + announced
            elif announced == 0:
                frames.append(BadFrame(0, b""))
                at = start
            elif announced < 0:
                frames.append(BadFrame(0, b"", broken=True))
                self._broken = True
                at = end
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
