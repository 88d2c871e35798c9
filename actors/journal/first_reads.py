"""The statements with which a host takes shards and reads their state, for ``PostgresJournal.warm``."""

from __future__ import annotations

from typing import Any

from engine.limits import ACTIVATION_ANSWERS, NETWORK_GROUP_MAX, TOMBSTONE_DAYS


def first_reads(incarnation: str) -> list[tuple[str, tuple[Any, ...]]]:
    """Names and arguments of the statements in the order of their use. They find and change nothing."""
    nothing: list[Any] = []
    return [
        ("load_epochs", (nothing,)),
        ("take_shards", (incarnation, nothing, nothing)),
        ("load_cards", (nothing, TOMBSTONE_DAYS)),
        ("load_accounts", (nothing,)),
        ("load_open_holds", (nothing,)),
        ("load_answers", (nothing, ACTIVATION_ANSWERS)),
        ("load_programmes", (nothing,)),
        ("find_commands", (nothing,)),
        ("load_authorizations", (nothing, nothing, NETWORK_GROUP_MAX)),
        ("load_past", (nothing, nothing, nothing)),
        ("find_responses", (nothing, 0)),
    ]
