"""A command on its way through a host."""

from __future__ import annotations

import asyncio

import msgspec

from actors.cards.activation import CardActor
from actors.shards.turn import Seat
from actors.submission import Submission
from engine.authorization.follow_up import FollowUpRecord
from engine.commands import Command
from engine.decision.decide import Decision
from engine.decision.delegation import EndpointResult
from engine.programmes.programme import Programme
from engine.replies import Done, Reply


class Pending(msgspec.Struct, eq=False):
    """One submission, who waits for it, and, once it is decided, what becomes true with its commit."""

    submission: Submission
    command: Command
    shard: int
    """Of its card or programme."""
    deadline: float
    """On the host's monotonic clock, seconds: not decided after it."""
    seat: Seat
    """Where its caller waits for it."""
    entered: float
    """On the same clock: when it came."""
    joined: tuple[Seat, ...] = ()
    """Where callers wait who sent the same command again."""
    answered: bool = False
    late: asyncio.Future[Reply] | None = None
    """For whoever has to look at the reply before it can answer its own caller."""
    deferred: bool = False
    """Whether it waits for the outside world, so that no call may wait for it."""
    consulted: EndpointResult | None = None
    """What came of asking a delegated programme; true whatever becomes of the commit."""
    reply: Reply | None = None
    actor: CardActor | None = None
    outcome: Decision | FollowUpRecord | None = None
    programme: Programme | None = None
    """The programme that this command changed, as it left it."""
    told: bool = False
    """Whether every host has to hear of that."""
    looked_up: bool = False
    """Whether the journal has been searched for a stored reply of it, or of what it reverses."""
    repeated: Reply | None = None
    """The stored approval of another exchange that it gets, once that is noted."""
    stands: bool = False
    """Whether it is a late reversal of an approval that stands, so that its reply is not kept."""

    def answer(self, reply: Reply) -> None:
        """Give the caller its reply; only the first one counts."""
        if self.answered:
            return
        self.answered = True
        self.seat.answer(reply)
        if self.late is not None and not self.late.done():
            self.late.set_result(reply)

    def overheard(self) -> asyncio.Future[Reply]:
        """The reply that its caller will get, for somebody else; to be asked before that has happened. Only
        to be awaited under a shield."""
        if self.late is None:
            self.late = asyncio.get_running_loop().create_future()
        return self.late

    def join(self, seat: Seat) -> None:
        """Another caller waits for the same command."""
        self.joined += (seat,)
        if self.deferred:
            seat.defer()

    def defer(self) -> None:
        """Let every call go on without it."""
        self.deferred = True
        for seat in (self.seat, *self.joined):
            seat.defer()

    def undo(self) -> None:
        """Nothing of it is decided any more."""
        self.reply = self.actor = self.outcome = self.programme = None
        self.told = self.stands = False


def present(reply: Reply, submission: Submission) -> Reply:
    """Merge the response-only members into a REST reply."""
    if isinstance(reply, Done) and submission.presentation:
        return Done(reply.status, reply.body | submission.presentation, reply.replayed)
    return reply
