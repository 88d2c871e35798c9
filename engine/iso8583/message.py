"""A decoded message: type indicator and fields. Its ``repr`` contains no values.

A message type indicator (MTI) has four digits: version, class, function and origin. ``0101`` is the repeat of
an ``0100``.
"""

from __future__ import annotations

import msgspec


class Message(msgspec.Struct, frozen=True):
    """``fields`` maps field numbers (2 to 192) to text. The codec returns them in ascending order."""

    mti: str
    fields: dict[int, str]
    header: bytes = b""
    """The message header of profiles that have one; empty otherwise, and in messages that have not been
    sent."""

    def __repr__(self) -> str:
        return f"Message({self.mti}, fields {list(self.fields)})"


def as_repeat(message: Message) -> Message:
    """``message``, marked as a repeat."""
    return Message(f"{message.mti[:3]}1", message.fields)
