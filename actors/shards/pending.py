"""A command during its execution in a host."""

from __future__ import annotations

import asyncio

import msgspec

from actors.cards.card_actor import CardActor
from actors.shards.reply_slots import ReplySlot
from actors.submission import Submission
from actors.tracing import Span, reply_attributes
from engine.authorization.follow_up import FollowUpRecord
from engine.commands import Command
from engine.decision.decide import Decision
from engine.decision.delegation import EndpointResult
from engine.programmes.programme import Programme
from engine.replies import Done, NotExecuted, Reply


class Pending(msgspec.Struct, eq=False):
    """A submission, the callers that wait for its reply, and its decision, which its commit makes durable."""

    submission: Submission
    command: Command
    shard: int
    """The shard of the card or programme."""
    deadline: float
    """Not decided after this; seconds on the host's monotonic clock."""
    slot: ReplySlot
    """The caller's reply."""
    entered: float
    """Time of arrival on the same clock."""
    joined_slots: tuple[ReplySlot, ...] = ()
    """Reply slots of callers that sent the same command again."""
    answered: bool = False
    subscription: asyncio.Future[Reply] | None = None
    """Receives the reply for other commands that depend on it."""
    deferred: bool = False
    """Whether it waits for a programme's endpoint, so that no call may wait for it."""
    endpoint_result: EndpointResult | None = None
    """The answer of a delegated programme, or the trigger of a stand-in. It stays valid if the commit
    fails."""
    reply: Reply | None = None
    actor: CardActor | None = None
    outcome: Decision | FollowUpRecord | None = None
    programme: Programme | None = None
    """The programme as this command has changed it."""
    broadcast: bool = False
    """Whether every host must learn of that change."""
    looked_up: bool = False
    """Whether the journal has been searched for a stored reply to it, or to the message it reverses."""
    claim_looked_up: bool = False
    """Whether it has been searched for the stored response of its idempotency key."""
    stored_approval: Reply | None = None
    """The stored approval of another exchange, which it gets once the repeat is recorded."""
    approval_stands: bool = False
    """Whether it is a late reversal of an approval that stands. Its reply is not remembered."""
    span: Span | None = None
    """The host's span, if the host traces."""

    def answer(self, reply: Reply) -> None:
        """Give the caller its reply; later calls are ignored."""
        if self.answered:
            return
        self.answered = True
        if self.span is not None:
            self.span.end(reply_attributes(reply), failed=isinstance(reply, NotExecuted))
        self.slot.set(reply)
        if self.subscription is not None and not self.subscription.done():
            self.subscription.set_result(reply)

    def subscribe(self) -> asyncio.Future[Reply]:
        """A future of the reply, for other commands. Call it before the reply is given, and await it under a
        shield only."""
        if self.subscription is None:
            self.subscription = asyncio.get_running_loop().create_future()
        return self.subscription

    def join(self, slot: ReplySlot) -> None:
        """Another caller has sent the same command: its call is deferred with this one."""
        self.joined_slots += (slot,)
        if self.deferred:
            slot.defer()

    def defer(self) -> None:
        """Let all calls return without this reply."""
        self.deferred = True
        for slot in (self.slot, *self.joined_slots):
            slot.defer()

    def discard_decision(self) -> None:
        """Forget the decision: it is not durable."""
        self.reply = self.actor = self.outcome = self.programme = None
        self.broadcast = self.approval_stands = False


def present(reply: Reply, submission: Submission) -> Reply:
    """Merge the response-only members into a REST reply."""
    if isinstance(reply, Done) and submission.presentation:
        return Done(reply.status, reply.body | submission.presentation, reply.replayed)
    return reply
