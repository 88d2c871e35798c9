"""Undoing authorizations that the network believes to have failed.

Each is reversed under a command key of its own, derived from the key of what it undoes, so asking again,
from this edge or another, reverses once. It is asked until an owner has answered: owners change, databases
come back. Only the edge's death ends it early; then the network's own reversal or the hold's expiry frees
the money.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable

import msgspec
import structlog

from actors.essential import start_essential
from engine.commands import Authorize, Command, Reverse, key_of_message, reference_of_message
from engine.ids import Derived, derive
from engine.iso8583.identity import late_reversal_key
from engine.iso8583.respond import NO_ACTION
from engine.limits import UNDO_SECONDS_MAX, UNDO_SECONDS_MIN, UNDO_STOP_SECONDS, UNDONE_KEYS_MAX
from engine.replies import NotExecuted, Reply, WireAnswer

_log = structlog.get_logger(__name__)


class LateReversalCounts(msgspec.Struct):
    """Reversals of the edge's own since it started."""

    issued: int = 0
    done: int = 0
    retries: int = 0
    abandoned: int = 0
    """Not answered when the edge stopped."""
    stood: int = 0
    """Approvals that stand, because another exchange of the same message got them."""
    failed: int = 0
    """Refused by their owner: a fault of ours."""


class LateReversals:
    """``command_key in undoing`` tells whether that authorization has been undone from here lately."""

    def __init__(self, submit: Callable[[Command], Awaitable[Reply]]) -> None:
        self.counts = LateReversalCounts()
        self._submit = submit
        self._undone: OrderedDict[bytes, None] = OrderedDict()
        self._tasks: set[asyncio.Task[None]] = set()

    def __contains__(self, command_key: bytes) -> bool:
        return command_key in self._undone

    @property
    def open(self) -> int:
        """Reversals that have no answer yet."""
        return len(self._tasks)

    def undo(self, command: Authorize, approved_minor: int) -> None:
        """Reverses ``command``, which may have approved up to so much, in the background; a second time is
        harmless."""
        if command.command_key in self._undone or not approved_minor:
            return
        self._undone[command.command_key] = None
        if len(self._undone) > UNDONE_KEYS_MAX:
            self._undone.popitem(last=False)
        self.counts.issued += 1
        task = start_essential(self._ask(reversal_of(command, approved_minor)), "undo")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def stop(self) -> None:
        """Waits a little for reversals under way, then gives them up."""
        if not self._tasks:
            return
        _, abandoned = await asyncio.wait(self._tasks, timeout=UNDO_STOP_SECONDS)
        self.counts.abandoned += len(abandoned)
        for task in abandoned:
            task.cancel()
        await asyncio.gather(*abandoned, return_exceptions=True)

    async def _ask(self, reversal: Reverse) -> None:
        pause_seconds = UNDO_SECONDS_MIN
        while not await self._answered(reversal):
            self.counts.retries += 1
            await asyncio.sleep(pause_seconds)
            pause_seconds = min(2 * pause_seconds, UNDO_SECONDS_MAX)

    async def _answered(self, reversal: Reverse) -> bool:
        try:
            reply = await self._submit(reversal)
        except Exception as failure:  # noqa: BLE001 - whatever it is, the money is still to be given back
            _log.warning("undo_unanswered", error=type(failure).__name__)
            return False
        if isinstance(reply, WireAnswer) and reply.response_code == NO_ACTION:
            # The approval stays true, and repeats get it.
            self.counts.stood += 1
            self._undone.pop(key_of_message(reversal.references[0]), None)
            return True
        if isinstance(reply, WireAnswer):
            self.counts.done += 1
            return True
        if isinstance(reply, NotExecuted) and reply.reason != "key_reused":
            return False
        self.counts.failed += 1
        _log.error("undo_refused", card_id=reversal.card_id, reply=type(reply).__name__)
        return True


def reversal_of(command: Authorize, approved_minor: int) -> Reverse:
    """The command that undoes ``command``, and nothing else of the transaction that it belongs to."""
    key = late_reversal_key(command.command_key)
    return Reverse(
        # By this the owner knows which exchange was late.
        id=derive(command.id, Derived.UNDO),
        command_key=key,
        card_id=command.card_id,
        # What is undone follows from the key alone, so every issue of it is an honest repeat.
        fingerprint=key,
        wire=command.wire,
        references=(reference_of_message(command.command_key),),
        increment_minor=approved_minor if command.references else None,
        late=True,
    )
