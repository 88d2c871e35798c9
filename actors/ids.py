"""Fresh ids: UUIDv7 with a chosen shard. The one place where ids are drawn."""

from __future__ import annotations

from uuid_utils import uuid7

from engine.limits import SHARD_COUNT

assert SHARD_COUNT == 256, "a random last byte is a uniformly drawn shard"


def new_id(shard: int | None = None) -> str:
    """A fresh time-ordered id on ``shard`` (0 to 255), or on a random one."""
    text = str(uuid7())
    return text if shard is None else f"{text[:-2]}{shard:02x}"


def new_id_beside(id_: str) -> str:
    """A fresh id with the same owner as ``id_``."""
    return f"{str(uuid7())[:-2]}{id_[-2:]}"
