"""The role of a shard host's process."""

from __future__ import annotations

import os
from collections.abc import Awaitable
from functools import partial

import msgspec
import structlog

from actors.clock import DatabaseClock
from actors.clock_reading import ClockReader
from actors.egress.client import Egress
from actors.egress.receivers import LocalReceivers
from actors.essential import end_process
from actors.journal.contract import JournalError, UnknownOutcomeError
from actors.journal.postgres import PostgresJournal
from actors.metrics import Figures
from actors.periodic import PeriodicTask, Step
from actors.roles import Context
from actors.router import Router
from actors.shards.endpoint import DecisionEndpoint
from actors.shards.expiry_sweeper import ExpirySweeper
from actors.shards.exposure import ExposureClient
from actors.shards.host import ShardHost
from actors.shards.programme_calls import RemoteProgrammeCalls
from actors.submission import decode_batch, encode_collected, encode_replies
from actors.tracing import close_tracer, open_tracer
from actors.vault import Vault
from engine.commands import Command
from engine.limits import (
    CLOCK_SECONDS,
    DECISION_CALLS_PER_TARGET_MAX,
    HOLD_SWEEP_SECONDS,
    PROGRAMME_REFRESH_SECONDS,
)
from engine.programmes.programme import Programme
from engine.replies import NotExecuted, Reply

FENCED_EXIT = 70
"""Exit status of a host that found another owner of its shards."""

_log = structlog.get_logger(__name__)
_decode_expected = msgspec.msgpack.Decoder(dict[int, int] | list[int]).decode
"""Shards to take, with the epochs that the coordinator has read. A coordinator of the release before sends a
list of shards only."""
_decode_shards = msgspec.msgpack.Decoder(list[int]).decode
_decode_programme = msgspec.msgpack.Decoder(Programme).decode


class HostRole:
    """Implements ``actors.roles.Role``. Its name is the incarnation under which it commits."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._journal = PostgresJournal(context.settings.database_dsn, context.name)
        settings, clock = context.settings, DatabaseClock()
        self._clock = clock
        self._clock_reader = ClockReader(clock, self._database_ms)
        vault = Vault.from_settings(settings)
        self._tracer = open_tracer(settings, context.name)
        self._router = Router(context.peers)
        self._egress = Egress(
            settings.egress_allow,
            settings.egress_ca_file,
            receivers=LocalReceivers(settings.var_dir),
            connections_per_target=DECISION_CALLS_PER_TARGET_MAX,
        )
        self.endpoint = DecisionEndpoint(self._egress, vault, clock)
        self._exposure = ExposureClient(self._submit)
        programme_calls = RemoteProgrammeCalls(self.endpoint, self._exposure)
        self.host = ShardHost(
            self._journal,
            vault,
            clock,
            self._publish,
            self._fenced,
            programme_calls,
            log_decisions=settings.log_decisions,
            tracer=self._tracer,
        )
        self._sweeper = ExpirySweeper(self._journal, self.host.execute, self.host.epochs.keys)
        self._background = [
            _periodic("expiry-sweep", self._sweep, HOLD_SWEEP_SECONDS),
            _periodic(
                "programme-refresh", self.host.activation.refresh_programmes, PROGRAMME_REFRESH_SECONDS
            ),
            _periodic("clock-check", self._clock_reader.step, CLOCK_SECONDS),
        ]

    async def start(self) -> None:
        await self._egress.open()
        await self._journal.register(self._context.name)
        await self._journal.warm()
        await self._clock_reader.step()
        self._router.start()
        self.host.start()
        self.host.committer.on_end(partial(end_process, "group-commit"))
        for task in self._background:
            task.start()

    async def call(self, method: str, payload: bytes) -> bytes:
        if method == "execute":
            caller, submissions = decode_batch(payload)
            if not self._clock.trusted:
                self.host.counts.refused("clock", len(submissions))
                return encode_replies([NotExecuted("overloaded")] * len(submissions))
            return encode_replies(await self.host.execute_decodable(submissions, caller))
        if method == "collect":
            return encode_collected(await self.host.collect(payload.decode()))
        if method == "take":
            return await self._take(_decode_expected(payload))
        if method == "release":
            await self.host.release(_decode_shards(payload))
        elif method == "programme_changed":
            self.host.programme_changed(_decode_programme(payload))
        else:
            raise ValueError(method)
        return b""

    def figures(self) -> Figures:
        committer = self.host.committer
        return self.host.counts.figures() | {
            "stanchion_programme_answers": self.endpoint.counts.figure(),
            "stanchion_commands": self.host.decider.decided,
            "stanchion_commits": committer.commits,
            "stanchion_commit_failures": committer.failures,
            "stanchion_commit_seconds": committer.seconds.figure(),
            "stanchion_commit_batch_commands": committer.batch_sizes.figure(),
            "stanchion_journal_rows": committer.journal_rows,
            "stanchion_undurable_commands": committer.backlog,
            "stanchion_unreadable_rows": self.host.activation.reader.unreadable,
            "stanchion_active_cards": len(self.host.activation.cards),
            "stanchion_clock_refused": int(not self._clock.trusted),
            "stanchion_shards": len(self.host.epochs),
        }

    async def stop(self) -> None:
        for task in self._background:
            await task.stop()
        await self._exposure.stop()
        await self.host.stop()
        await self.endpoint.stop()
        await self._egress.close()
        await self._router.stop()
        await close_tracer(self._tracer)

    async def _take(self, shards: dict[int, int] | list[int]) -> bytes:
        try:
            await self.host.take(tuple(shards), shards if isinstance(shards, dict) else None)
        except JournalError:
            return b"unavailable"
        return b"taken"

    async def _sweep(self) -> float:
        """Sweep while the clock is trusted: expiries are compared with the database's clock."""
        return await self._sweeper.step() if self._clock.trusted else HOLD_SWEEP_SECONDS

    async def _database_ms(self) -> int:
        return await self._journal.now_ms()

    async def _publish(self, programme: Programme) -> None:
        await self._context.peers.publish_programme(msgspec.msgpack.encode(programme))

    def _submit(self, command: Command, timeout_ms: int) -> Awaitable[Reply]:
        return self._router.submit(command, timeout_ms=timeout_ms)

    def _fenced(self) -> None:
        """Another host owns shards of this one: exit at once, so that no reply leaves this process."""
        _log.error("fenced", incarnation=self._context.name)
        os._exit(FENCED_EXIT)


def _periodic(name: str, step: Step, seconds: float) -> PeriodicTask:
    """A background task of a host. While the journal is unavailable, a step is skipped."""
    return PeriodicTask(name, step, seconds, delay=seconds, tolerated=(UnknownOutcomeError,))
