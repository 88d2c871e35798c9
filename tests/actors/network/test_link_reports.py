"""An edge reports its links to the database, and deletes old reports of edges that have ended."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import asyncpg
import msgspec
import pytest

from actors.network.database import NetworkDbConnection
from actors.network.link_reports import link_reporter
from actors.network.links.status import LinkStatus
from actors.settings import Settings

UP = LinkStatus(
    name="default",
    direction="listen",
    mode="test",
    address="127.0.0.1:8583",
    tls=False,
    state="up",
    connections=1,
    connections_wanted=None,
    signed_on=0,
    sign_on="optional",
    in_flight=0,
    per_minute={"0110 00": 3},
    answers={},
    refused={},
    bytes_received=10,
    last_error=None,
    last_error_ms=0,
)
ROWS = "SELECT edge, name, live, status::text FROM link_reports ORDER BY edge, name"


@pytest.fixture
async def connection(settings: Settings) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    opened = await asyncpg.connect(settings.database_dsn)
    yield opened
    await opened.close()


async def test_report_replaces_the_edges_own_and_deletes_old_ones(
    settings: Settings, connection: asyncpg.Connection[asyncpg.Record]
) -> None:
    db = NetworkDbConnection(settings.database_dsn, "test")
    found = [UP]
    reporter = link_reporter("edge", lambda: found, db.fetch)
    await reporter._step()
    await link_reporter("ended", lambda: [UP], db.fetch)._step()
    await connection.execute(
        "UPDATE link_reports SET reported_at = now() - interval '2 days' WHERE edge = 'ended'"
    )
    found[0] = msgspec.structs.replace(UP, state="draining")
    await reporter._step()
    (row,) = await connection.fetch(ROWS)
    status = json.loads(row["status"])
    assert (row["edge"], row["name"], row["live"], status["state"]) == ("edge", "default", False, "draining")
    assert status["per_minute"] == {"0110 00": 3}
    assert not status.keys() & {"address", "name", "edge", "mode"}
    db.close()
