"""A command on its way through a host."""

from __future__ import annotations

import asyncio

import msgspec

from actors.cards.activation import CardActor
from actors.submission import Submission
from engine.commands import Command
from engine.decide import Decision
from engine.lifecycle import Record
from engine.programme import ProgrammeConfig
from engine.replies import Done, Reply


class Pending(msgspec.Struct, eq=False):
    """One submission, who waits for it, and, once it is decided, what becomes true with its commit."""

    submission: Submission
    deadline: float
    """On the host's monotonic clock, seconds: not decided after it."""
    done: asyncio.Future[Reply]
    reply: Reply | None = None
    actor: CardActor | None = None
    outcome: Decision | Record | None = None
    config: ProgrammeConfig | None = None
    """The programme version this command made; every host hears of it before the caller does."""
    entered: float = 0.0
    """On the same clock: when it came."""

    @property
    def command(self) -> Command:
        return self.submission.command

    def undo(self) -> None:
        """Nothing of it is decided any more."""
        self.reply = self.actor = self.outcome = self.config = None


def present(reply: Reply, submission: Submission) -> Reply:
    """Merge the response-only members into a REST reply."""
    if isinstance(reply, Done) and submission.presentation:
        return Done(reply.status, reply.body | submission.presentation, reply.replayed)
    return reply
