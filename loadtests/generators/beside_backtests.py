"""A load on an installation that runs a back-test meanwhile."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from loadtests.figures import Samples
from loadtests.generators.http import Api, HttpError
from loadtests.generators.workload import Load

WINDOW: Final = {"from": "2026-01-01T00:00:00Z", "to": "2026-03-01T00:00:00Z"}
CHANGE: Final[dict[str, Any]] = {"controls": {"add": [{"kind": "per_txn_cap", "amount": "98.00"}]}}
POLL_SECONDS: Final = 0.1
START_SECONDS_MAX: Final = 60.0


class BesideBacktests:
    """``load`` beside back-tests of one programme, one after the other; see ``workload.Load``. The tasks of
    the back-tests are servers."""

    def __init__(self, load: Load, api: Api, programme_id: str) -> None:
        self._load = load
        self._api = api
        self._asked = {"scope": {"type": "programme", "id": programme_id}, **WINDOW, "change": CHANGE}
        self._running: asyncio.Task[None] | None = None
        self._lived = asyncio.Event()

    @property
    def pids(self) -> tuple[int, ...]:
        return self._load.pids

    @property
    def counts_as_server(self) -> bool:
        return self._load.counts_as_server

    async def start(self) -> None:
        """Begin once the first back-test lives histories."""
        self._running = asyncio.create_task(self._run())
        async with asyncio.timeout(START_SECONDS_MAX):
            lived = asyncio.create_task(self._lived.wait())
            await asyncio.wait((self._running, lived), return_when=asyncio.FIRST_COMPLETED)
            lived.cancel()
        if self._running.done():
            await self._running
        await self._load.start()

    async def stop(self) -> Samples:
        """Stop the load, then the back-tests."""
        assert self._running is not None, "called after start"
        samples = await self._load.stop()
        if self._running.done():
            await self._running
        self._running.cancel()
        await asyncio.gather(self._running, return_exceptions=True)
        return samples

    async def _run(self) -> None:
        """Back-tests without a pause. Raises HttpError when one fails."""
        while True:
            made = await self._api.call("POST", "/v1/backtests", self._asked, status=202)
            path = f"/v1/backtests/{made['id']}"
            try:
                await self._follow(path)
            except asyncio.CancelledError:
                await self._api.call("DELETE", path)
                raise

    async def _follow(self, path: str) -> None:
        while True:
            found = await self._api.call("GET", path)
            if found["state"] not in ("queued", "running"):
                break
            if found["progress"]["cards_done"]:
                self._lived.set()
            await asyncio.sleep(POLL_SECONDS)
        if found["state"] != "done":
            raise HttpError(f"the back-test has ended as {found['state']}")
