"""Database sizes and open outages, with a time limit."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress

from actors.journal.sizes import read_sizes
from actors.metrics import METRICS
from actors.settings import Settings
from tests.conftest import execute


async def test_sizes_are_reported(settings: Settings) -> None:
    sizes = await read_sizes(settings.database_dsn, 5.0)
    assert sizes.keys() <= METRICS.keys()
    journal, database = sizes["stanchion_journal_bytes"], sizes["stanchion_database_bytes"]
    assert isinstance(journal, int | float)
    assert isinstance(database, int | float)
    assert 0 < journal < database


async def test_open_outages_are_reported(settings: Settings) -> None:
    sizes = await read_sizes(settings.database_dsn, 5.0)
    assert (sizes["stanchion_outages_open"], sizes["stanchion_outage_exposure_minor"]) == (0, {})
    began = (
        "INSERT INTO outages SELECT gen_random_uuid(), 1, gen_random_uuid(), false, gen_random_uuid(),"
        " currency, used, now(), ended FROM (VALUES ('EUR', 500, NULL::timestamptz), ('EUR', 700, NULL),"
        " (NULL, 0, NULL), ('USD', 900, now())) AS given (currency, used, ended)"
    )
    execute(settings.database_dsn, began)
    sizes = await read_sizes(settings.database_dsn, 5.0)
    assert sizes["stanchion_outages_open"] == 3
    assert sizes["stanchion_outage_exposure_minor"] == {("EUR",): 1_200, ("",): 0}


async def test_absent_database_reports_no_sizes() -> None:
    assert await read_sizes("postgresql://nobody@127.0.0.1:1/nowhere", 1.0) == {}


async def test_silent_database_reports_no_sizes_after_the_time_limit() -> None:
    writers: list[asyncio.StreamWriter] = []

    async def silent(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    began = time.monotonic()
    assert await read_sizes(f"postgresql://nobody@127.0.0.1:{port}/nowhere", 0.2) == {}
    assert time.monotonic() - began < 5
    for writer in writers:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
    server.close()
