"""New ids: UUIDv7 with a chosen shard. All ids are created here."""

from __future__ import annotations

from uuid_utils import uuid7

from engine.limits import SHARD_COUNT

assert SHARD_COUNT == 256, "a random last byte gives each shard the same probability"


def new_id(shard: int | None = None) -> str:
    """A new time-ordered id on ``shard`` (0 to 255), or on a random shard."""
    text = str(uuid7())
    return text if shard is None else f"{text[:-2]}{shard:02x}"


def new_id_beside(id_: str) -> str:
    """A new id on the shard of ``id_``."""
    return f"{str(uuid7())[:-2]}{id_[-2:]}"
