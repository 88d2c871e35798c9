"""The task of a back-test: it works on ranges of cards, one after the other, until none is left or its time
is up. Any number of tasks can work on one back-test."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

import structlog

from actors.backtests.read_ahead import ReadAhead
from actors.backtests.reading import HistoryReader, Unit
from actors.backtests.store import Backtest, BacktestStore, LeaseLostError, Range, open_connection
from actors.backtests.task import backtest_of
from actors.settings import Settings
from engine.backtests.history import History
from engine.backtests.order import CommandQueues
from engine.backtests.recorded_run import LeftOutError, MismatchError
from engine.backtests.tally import Flip, Tally
from engine.limits import (
    BACKTEST_FLIPS_STORED_MAX,
    BACKTEST_LEASE_SECONDS,
    BACKTEST_ROWS_MAX,
    BACKTEST_ROWS_READ,
    BACKTEST_TASK_SECONDS,
)
from engine.replay.programmes import ProgrammeVersions

CARDS_READ: Final = 64
"""Cards whose first commands are read at once."""
FLIPS_WRITTEN: Final = 500
"""Flips that are written at once."""
KEEP_SECONDS: Final = BACKTEST_LEASE_SECONDS / 5
"""Interval between extensions of a lease."""

_log = structlog.get_logger(__name__)


async def work(settings: Settings, payload: bytes) -> bytes:
    """Work on a back-test. Raises DatabaseUnavailableError."""
    backtest_id = backtest_of(payload)
    database = open_connection(settings.database_dsn)
    store = BacktestStore(database, backtest_id)
    try:
        backtest = await store.find()
        if backtest is None:
            return b""
        versions = await store.programmes(backtest.programme_id)
        worker = RangeWorker(store, HistoryReader(database, backtest), backtest, versions)
        await worker.run(time.monotonic() + BACKTEST_TASK_SECONDS)
    except LeaseLostError:
        _log.info("backtest_lease_lost", backtest=backtest_id)
    finally:
        database.close()
    return b""


class RangeWorker:
    """Lives the histories of ranges."""

    def __init__(
        self, store: BacktestStore, reader: HistoryReader, backtest: Backtest, versions: ProgrammeVersions
    ) -> None:
        self._store = store
        self._reader = reader
        self._backtest = backtest
        self._versions = versions
        self._settled_at = time.monotonic() + backtest.settled_in
        self._flips_left = BACKTEST_FLIPS_STORED_MAX - backtest.flips
        self._flips: list[Flip] = []
        self._range: Range
        self._cards_done = 0
        self._keep_at = 0.0

    async def run(self, until: float) -> None:
        """Work until no range is left, or the monotonic time ``until``. Raises LeaseLostError and
        DatabaseUnavailableError."""
        while time.monotonic() < until:
            claimed = await self._store.claim()
            if claimed is None:
                return
            self._begin(claimed)
            tally = await self._live(claimed)
            await self._write_flips()
            await self._store.complete(claimed, tally)

    def _begin(self, claimed: Range) -> None:
        self._range, self._cards_done, self._flips = claimed, 0, []
        self._keep_at = time.monotonic() + KEEP_SECONDS

    async def _live(self, claimed: Range) -> Tally:
        """Live the histories of a range. While one batch is lived, the next one is read."""
        tally = Tally()
        batches = list(_batches(await self._reader.units(claimed)))
        async with ReadAhead[list[CommandQueues]]() as ahead:
            for units, following in pairwise([[], *batches, []]):
                read = await ahead.take() if units else []
                if following:
                    await ahead.begin(self._first_commands(following))
                for unit, queues in zip(units, read, strict=True):
                    tally.add(await self._live_unit(unit, queues))
                    self._cards_done += unit.covered
                    await self._keep()
        return tally

    async def _first_commands(self, units: list[Unit]) -> list[CommandQueues]:
        unsettled = self._settled_at - time.monotonic()
        if unsettled > 0 and any(len(unit.card_ids) > 1 for unit in units):
            await asyncio.sleep(unsettled)
        return await self._reader.queues(units)

    async def _live_unit(self, unit: Unit, queues: CommandQueues) -> Tally:
        history = History(self._backtest.plan, self._versions, card_velocities=self._backtest.card_velocities)
        rows = 0
        try:
            while True:
                for entry in queues.ready(history):
                    history.live(entry)
                self._take_flips(history)
                starving = queues.starving()
                if not starving:
                    return history.tally
                rows += await self._reader.fill(queues, starving)
                if rows > BACKTEST_ROWS_MAX:
                    raise LeftOutError
                await self._keep()
                await self._write_flips(FLIPS_WRITTEN)
        except MismatchError as mismatch:
            failed = Tally()
            failed.mismatch(str(mismatch))
            return failed
        except LeftOutError:
            return Tally(cards_left_out=len(unit.card_ids))

    def _take_flips(self, history: History) -> None:
        taken, history.flips = history.flips[: max(0, self._flips_left)], []
        self._flips_left -= len(taken)
        self._flips += taken

    async def _write_flips(self, least: int = 1) -> None:
        if len(self._flips) >= least:
            flips, self._flips = self._flips, []
            for start in range(0, len(flips), BACKTEST_ROWS_READ):
                await self._store.add_flips(self._range, flips[start : start + BACKTEST_ROWS_READ])

    async def _keep(self) -> None:
        await self._write_flips(FLIPS_WRITTEN)
        now = time.monotonic()
        if now >= self._keep_at:
            self._keep_at = now + KEEP_SECONDS
            await self._store.keep(self._range, self._cards_done)


def _batches(units: list[Unit]) -> Iterator[list[Unit]]:
    """``units`` in groups that are read at once: single cards together, as many as fit into one read; cards
    that share an account by themselves."""
    group: list[Unit] = []
    commands = 0
    for unit in units:
        if len(unit.card_ids) > 1:
            yield [unit]
            continue
        if group and (len(group) == CARDS_READ or commands + unit.commands > BACKTEST_ROWS_READ):
            yield group
            group, commands = [], 0
        group.append(unit)
        commands += unit.commands
    if group:
        yield group
