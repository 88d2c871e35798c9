"""The server's own loop: rare wake-ups while idle, and an end without delay."""

from __future__ import annotations

import asyncio

import pytest

from api.http.server import HttpServer


class CountedServer(HttpServer):
    """Counts the wake-ups of its loop."""

    ticks = 0

    async def on_tick(self, counter: int) -> bool:
        self.ticks += 1
        return await super().on_tick(counter)


@pytest.mark.virtual_time
async def test_idle_server_wakes_once_a_second_until_it_leaves() -> None:
    server = CountedServer(None)
    serving = asyncio.create_task(server.main_loop())
    await asyncio.sleep(10.5)
    assert server.ticks == 11
    assert [name for name, _ in server.server_state.default_headers] == [b"date"]
    left = asyncio.get_running_loop().time()
    server.leave()
    server.leave()
    await serving
    assert asyncio.get_running_loop().time() == left
