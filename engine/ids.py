"""Ids with the number of their shard.

An id is a UUIDv7 (RFC 9562) in canonical lower-case text. Its last byte is the shard number, so an id routes
without a lookup. The ids of a command's hold, entries and events are *derived* from the command's id by
flipping the byte before the shard, so a replayed decision has the same ids.
"""

from __future__ import annotations

import hashlib
import re
from enum import IntEnum
from typing import Final

_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)
_BASE32: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_PAIRS: Final = tuple(_BASE32[bits & 31] + _BASE32[bits >> 5] for bits in range(1024))
"""Ten bits as two characters, the lower five first."""


class Derived(IntEnum):
    """The kinds of derived ids; the value is XORed into the id's fifteenth byte."""

    HOLD = 0x01
    TRANSFER = 0x02
    ENTRY_DEBIT = 0x03
    ENTRY_CREDIT = 0x04
    ACCOUNT = 0x05
    FUNDING_SOURCE = 0x06
    SETTLEMENT = 0x07
    OUTAGE = 0x08
    STAND_IN = 0x09
    CARDHOLDER = 0x0A
    ISSUE = 0x0B
    """The command that issues a replacement card, derived from that card's id."""
    TRANSFER_REVERSAL = 0x0E
    EVENT_FIRST = 0x10
    EVENT_SECOND = 0x11
    EVENT_THIRD = 0x12
    EVENT_FOURTH = 0x13
    ACT = 0x30
    LATE_REVERSAL = 0x40
    """The edge's own reversal of an authorization command; deriving it again gives the command's id."""


_FLIPPED: Final = {kind: {f"{byte:02x}": f"{byte ^ kind:02x}" for byte in range(256)} for kind in Derived}


def shard_of(id_: str) -> int:
    """The shard of ``id_``, 0 to 255."""
    return int(id_[-2:], 16)


def derive(root: str, kind: Derived) -> str:
    """The id of ``kind`` derived from ``root``: deterministic, with the same shard and time."""
    return f"{root[:-4]}{_FLIPPED[kind][root[-4:-2]]}{root[-2:]}"


def id_of_pair(first: str, second: str) -> str:
    """The id of the pair ``first`` and ``second``, the same in every call; on the shard of ``second``."""
    digest = hashlib.blake2b(key_of(first) + key_of(second), digest_size=15).hexdigest()
    # Version 8 of RFC 9562: a custom layout.
    return f"{digest[:8]}-{digest[8:12]}-8{digest[13:16]}-8{digest[17:20]}-{digest[20:]}{second[-2:]}"


def is_id(text: str) -> bool:
    """Whether ``text`` is a canonical lower-case UUID; any other text is an unknown id."""
    return _UUID.fullmatch(text) is not None


def first_id_at(at_ms: int) -> str:
    """The smallest id that can be created at ``at_ms`` (milliseconds since the epoch)."""
    digits = f"{at_ms:012x}"
    return f"{digits[:8]}-{digits[8:]}-7000-8000-000000000000"


def key_of(id_: str) -> bytes:
    """The command key of a command that is sent once under a fresh id: the id's own 16 bytes."""
    return bytes.fromhex(id_.replace("-", ""))


def approval_code(authorization_id: str) -> str:
    """ISO 8583 DE38: six letters or digits from the id's random bits, so a replay gives the same code."""
    bits = int(authorization_id[24:32], 16)
    return _PAIRS[bits & 1023] + _PAIRS[bits >> 10 & 1023] + _PAIRS[bits >> 20 & 1023]
