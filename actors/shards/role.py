"""A shard host as a process of its own."""

from __future__ import annotations

import os

import msgspec
import structlog

from actors.clock import SystemClock
from actors.journal.contract import JournalError
from actors.journal.postgres import PostgresJournal
from actors.metrics import Figures
from actors.roles import Context
from actors.shards.host import ShardHost
from actors.shards.repeating import Repeating
from actors.shards.sweeper import Sweeper
from actors.submission import decode_submissions, encode_replies
from actors.vault import Vault
from engine.limits import REFRESH_SECONDS, SWEEP_SECONDS
from engine.programme import ProgrammeConfig

FENCED_EXIT = 70
"""Exit status of a host that found another owner of its shards."""

_log = structlog.get_logger(__name__)
_decode_shards = msgspec.msgpack.Decoder(list[int]).decode
_decode_config = msgspec.msgpack.Decoder(ProgrammeConfig).decode


class HostRole:
    """See ``actors.roles.Role``. Its name is the incarnation under which it commits."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._journal = PostgresJournal(context.settings.database_dsn, context.name)
        vault = Vault.from_settings(context.settings)
        self.host = ShardHost(self._journal, vault, SystemClock(), self._publish, self._fenced)
        sweeper = Sweeper(self._journal, self.host.execute, self.host.epochs.keys)
        self._background = [Repeating(sweeper.step, SWEEP_SECONDS), Repeating(self._refresh, REFRESH_SECONDS)]

    async def start(self) -> None:
        await self._journal.register(self._context.name)
        self.host.start()
        for repeating in self._background:
            repeating.start()

    async def call(self, method: str, payload: bytes) -> bytes:
        if method == "execute":
            return encode_replies(await self.host.execute(decode_submissions(payload)))
        if method == "take":
            return await self._take(_decode_shards(payload))
        if method == "release":
            await self.host.release(_decode_shards(payload))
        elif method == "programme_changed":
            self.host.programme_changed(_decode_config(payload))
        else:
            raise ValueError(method)
        return b""

    def figures(self) -> Figures:
        committer = self.host.committer
        return self.host.counts.figures() | {
            "stanchion_commands": self.host.decider.decided,
            "stanchion_commits": committer.commits,
            "stanchion_commit_failures": committer.failures,
            "stanchion_commit_seconds": committer.seconds.figure(),
            "stanchion_commit_batch_commands": committer.batch_sizes.figure(),
            "stanchion_journal_rows": committer.journal_rows,
            "stanchion_undurable_commands": committer.backlog,
            "stanchion_active_cards": len(self.host.activation.cards),
            "stanchion_shards": len(self.host.epochs),
        }

    async def stop(self) -> None:
        for repeating in self._background:
            await repeating.stop()
        await self.host.stop()

    async def _take(self, shards: list[int]) -> bytes:
        try:
            await self.host.take(shards)
        except JournalError:
            return b"unavailable"
        return b"taken"

    async def _refresh(self) -> float:
        await self.host.activation.refresh_programmes()
        return REFRESH_SECONDS

    async def _publish(self, config: ProgrammeConfig) -> None:
        await self._context.peers.publish_programme(msgspec.msgpack.encode(config))

    def _fenced(self) -> None:
        """Another host owns our cards: nothing of this process may reach anyone any more."""
        _log.error("fenced", incarnation=self._context.name)
        os._exit(FENCED_EXIT)
