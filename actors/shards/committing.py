"""Replies of durable commands: those that this host has just committed, and those that were executed
before."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from actors.cards.activation import Activation
from actors.cards.answers import KEY_REUSED, RecentAnswers, fingerprint_of
from actors.clock import Clock
from actors.journal.contract import StoredResponse
from actors.shards.announcing import Announcements
from actors.shards.counts import HostCounts
from actors.shards.in_flight import InFlight
from actors.shards.late_reversals import is_repeated_approval
from actors.shards.pending import Pending, present
from actors.vault import Vault
from engine.commands import READS
from engine.replies import Done, Granted, Reply, WireAnswer

# Created once: a union in ``isinstance`` builds an object at each use.
_REMEMBERED = (WireAnswer, Done, Granted)


class Confirmation:
    """Gives the replies of one host's durable commands."""

    def __init__(
        self,
        activation: Activation,
        answers: RecentAnswers,
        announcements: Announcements,
        in_flight: InFlight,
        counts: HostCounts,
        clock: Clock,
        vault: Vault,
        on_durable: Callable[[Pending], None] | None = None,
    ) -> None:
        """``on_durable`` is called with each command that this host has made durable."""
        self._activation = activation
        self._answers = answers
        self._announcements = announcements
        self._in_flight = in_flight
        self._counts = counts
        self._clock = clock
        self._vault = vault
        self._on_durable = on_durable

    def confirm(self, pendings: Iterable[Pending]) -> None:
        """The commands are durable: give their replies."""
        now = self._clock.monotonic()
        for pending in pendings:
            self._confirm(pending, now)

    def answer_executed(self, pending: Pending, reply: Reply) -> bool:
        """Give the stored ``reply`` to a command that was executed before. Returns false if it is the
        approval of another exchange: ``pending`` must then be admitted, so that the repeat is recorded
        first."""
        if is_repeated_approval(pending.command, reply):
            pending.stored_approval = reply
            return False
        self._announcements.resolve(pending, present(reply, pending.submission))
        return True

    def answer_claimed(self, pending: Pending, response: StoredResponse) -> None:
        """Give the stored response of the request that has used the idempotency key, or a conflict if that
        request was another one."""
        claim = pending.submission.claim
        assert claim is not None, "the response was found by its claim"
        if response.fingerprint != claim.fingerprint:
            self._in_flight.resolve(pending, KEY_REUSED)
            return
        body = self._vault.open("idempotency", response.sealed, claim.key_digest)
        reply = Done(response.status, msgspec.json.decode(body), replayed=True)
        self._in_flight.resolve(pending, reply)

    def _confirm(self, pending: Pending, now: float) -> None:
        reply = pending.reply
        assert reply is not None, "decided commands have replies"
        self._counts.confirmed(pending, now)
        if self._on_durable is not None:
            self._on_durable(pending)
        if pending.actor is not None:
            pending.actor.undurable -= 1
            if not pending.actor.undurable:
                self._activation.forget_old(pending.actor)
        if pending.stored_approval is not None or pending.approval_stands:
            self._in_flight.resolve(pending, reply)
            return
        if isinstance(reply, _REMEMBERED) and not isinstance(pending.command, READS):
            # A read can be repeated; remembering its reply would take more memory than its card.
            self._answers.remember(pending.command.command_key, fingerprint_of(pending.command), reply)
            reply = self._unless_reversed(pending, reply)
        if pending.programme is not None:
            self._activation.learn(pending.programme)
        self._announcements.resolve(pending, present(reply, pending.submission))

    def _unless_reversed(self, pending: Pending, reply: Reply) -> Reply:
        """If the edge reversed this approval before it was durable, answer 91: nothing is held for it."""
        if pending.actor is None or not pending.actor.card.tombstones:
            return reply
        return self._answers.unless_reversed(pending.command, reply)
