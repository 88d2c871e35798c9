"""Sizes of tables and of the log, from a real server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from ops.bench.meter import DatabaseMeter

ROWS = 1_000


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[asyncpg.Connection[Any]]:
    connection = await asyncpg.connect(database_url)
    yield connection
    await connection.close(timeout=10)


@pytest.fixture
async def meter(database_url: str) -> AsyncIterator[DatabaseMeter]:
    meter = DatabaseMeter(database_url)
    yield meter
    await meter.close()


async def test_rows_and_bytes_of_a_table_grow_by_its_inserts(
    database: asyncpg.Connection[Any], meter: DatabaseMeter
) -> None:
    await database.execute('CREATE TABLE "Odd name" (id int PRIMARY KEY, text text)')
    log, rows, sizes = await meter.log_bytes(), await meter.table_rows(""), await meter.table_bytes("")
    await database.execute(
        'INSERT INTO "Odd name" SELECT n, repeat($1, 100) FROM generate_series(1, $2) n', "x", ROWS
    )
    assert (await meter.table_rows(""))["Odd name"] - rows["Odd name"] == ROWS
    added = [
        after - before
        for after, before in zip((await meter.table_bytes(""))["Odd name"], sizes["Odd name"], strict=True)
    ]
    assert ROWS * 100 < added[0] < ROWS * 200, "128 bytes for each row, in whole pages"
    assert ROWS * 16 < added[1] < ROWS * 64
    assert await meter.log_bytes() - log > ROWS * 100


async def test_partitions_count_as_their_table(
    database: asyncpg.Connection[Any], meter: DatabaseMeter
) -> None:
    await database.execute(
        "CREATE TABLE parted (id int) PARTITION BY RANGE (id);"
        "CREATE TABLE parted_low PARTITION OF parted FOR VALUES FROM (0) TO (10);"
        "CREATE TABLE parted_high PARTITION OF parted FOR VALUES FROM (10) TO (20);"
        "INSERT INTO parted VALUES (1), (11)"
    )
    sizes = await meter.table_bytes("")
    assert "parted_low" not in sizes
    assert sizes["parted"][0] == 2 * 8192
    assert (await meter.table_rows(""))["parted"] == 2


async def test_full_page_images_are_a_part_of_the_log(
    database: asyncpg.Connection[Any], meter: DatabaseMeter
) -> None:
    await database.execute("CREATE TABLE imaged (id int); INSERT INTO imaged VALUES (1)")
    await database.execute("CHECKPOINT")
    begin = await meter.log_bytes()
    await database.execute("UPDATE imaged SET id = 2")
    end = await meter.log_bytes()
    assert 0 < await meter.page_image_bytes(begin, end) < end - begin


async def test_another_database_of_the_server_is_read_by_name(
    database: asyncpg.Connection[Any], meter: DatabaseMeter
) -> None:
    name = await database.fetchval("SELECT current_database()")
    assert await meter.table_bytes(name) == await meter.table_bytes("")
