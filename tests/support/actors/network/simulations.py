"""Requests of simulations for tests, and the rows that they produce."""

from __future__ import annotations

from typing import Any

import asyncpg

from actors.ids import new_id
from engine.simulation import Original, SpendRequest
from tests.support.actors.network.rows import TENANT_ID
from tests.support.actors.network.support import CARD_ID

NOW_MS = 1_795_253_400_123


def spend(**changes: Any) -> SpendRequest:
    """A simulated spend; ``changes`` replace fields."""
    values: dict[str, Any] = {
        "simulation_id": new_id(0xA7),
        "tenant_id": TENANT_ID,
        "card_id": CARD_ID,
        "amount_minor": 12_34,
        "currency": "EUR",
        "mcc": "5411",
        "merchant_name": "Corner shop",
        "merchant_country": "IE",
        "channel": "pos",
        "accepted_ms": NOW_MS,
    }
    return SpendRequest(**(values | changes))


async def rows(database_url: str) -> dict[str, dict[str, Any]]:
    """All simulations by id."""
    connection = await asyncpg.connect(database_url)
    records = await connection.fetch(
        "SELECT *, id::text AS key, authorization_id::text AS auth FROM simulations"
    )
    await connection.close()
    return {record["key"]: dict(record) for record in records}


def original(**changes: Any) -> Original:
    """A decided sale; ``changes`` replace fields of its request."""
    return Original(
        request=spend(**changes), stan="000123", rrn="632509000123", network_txn_id="SN0000000000122"
    )


async def sales(database_url: str) -> dict[str, dict[str, Any]]:
    """Rows of ``clearing_schedule`` by simulation id."""
    connection = await asyncpg.connect(database_url)
    records = await connection.fetch("SELECT *, simulation_id::text AS key FROM clearing_schedule")
    await connection.close()
    return {record["key"]: dict(record) for record in records}
