"""The fields of every command."""

from __future__ import annotations

import msgspec


class CommandBase(
    msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, tag_field="command", gc=False
):
    """The id of a command, and the key under which it is executed at most once."""

    id: str
    command_key: bytes
