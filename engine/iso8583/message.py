"""A decoded message: type indicator and fields. Its ``repr`` contains no values.

A message type indicator (MTI) has four digits: version, class, function and origin. ``0101`` is the repeat of
an ``0100``.
"""

from __future__ import annotations

from functools import lru_cache

import msgspec


class Message(msgspec.Struct, frozen=True):
    """``fields`` maps field numbers (2 to 128) to text. The codec returns them in ascending order."""

    mti: str
    fields: dict[int, str]

    def __repr__(self) -> str:
        return f"Message({self.mti}, fields {list(self.fields)})"


def is_request(mti: str) -> bool:
    """Whether ``mti`` expects an answer: a request (function 0) or an advice (function 2) of an acquirer,
    original or repeat."""
    return mti[0] == "0" and mti[2] in "02" and mti[3] in "01"


def is_repeat(mti: str) -> bool:
    """Whether ``mti`` is the repeat of an earlier message (``0101``, ``0121``, ``0401``)."""
    return mti[3] == "1"


@lru_cache(maxsize=64)
def response_mti(mti: str) -> str:
    """The MTI of the answer to a request; equal for an original and its repeats.

    >>> response_mti("0121")
    '0130'
    """
    return f"{mti[:2]}{int(mti[2]) + 1}0"


def as_repeat(message: Message) -> Message:
    """``message``, marked as a repeat."""
    return Message(f"{message.mti[:3]}1", message.fields)
