"""The message header of a profile: bytes of a fixed number before the MTI, such as a TPDU.

An answer returns the header of its request, with the ids of sender and receiver exchanged.
"""

from __future__ import annotations

import msgspec

from engine.iso8583.codec import Codec, DecodeError, EncodeError
from engine.iso8583.message import Message


class MessageHeader(msgspec.Struct, frozen=True):
    """``value``: the header of messages that this side starts. ``swaps``: pairs of positions and their common
    size, which an answer exchanges."""

    value: bytes
    swaps: tuple[tuple[int, int, int], ...] = ()

    def answer(self, received: bytes) -> bytes:
        """The header of the answer to a message with the header ``received``."""
        if len(received) != len(self.value):
            return self.value  # the request was too short to have one
        header = bytearray(received)
        for first, second, size in self.swaps:
            header[first : first + size] = received[second : second + size]
            header[second : second + size] = received[first : first + size]
        return bytes(header)


class HeaderCodec:
    """``Codec`` of a profile with message headers, around the codec of the rest."""

    def __init__(self, inner: Codec, header: MessageHeader) -> None:
        self._inner = inner
        self._header = header
        self._size = len(header.value)

    def decode(self, payload: bytes) -> Message:
        """``Codec.decode``."""
        size = self._size
        try:
            message = self._inner.decode(payload[size:])
        except DecodeError as error:
            read = error.read
            if read is not None:
                read = Message(read.mti, read.fields, payload[:size])
            raise DecodeError(error.field, error.position + size, error.problem, read) from None
        return Message(message.mti, message.fields, payload[:size])

    def encode(self, message: Message) -> bytes:
        """``Codec.encode``. A message without a header gets the header of this side."""
        header = message.header or self._header.value
        if len(header) != self._size:
            raise EncodeError("header", f"has {len(header)} bytes, not {self._size}")
        return header + self._inner.encode(message)

    def encode_mti(self, mti: str) -> bytes:
        """``Codec.encode_mti``."""
        return self._inner.encode_mti(mti)
