"""Late reversals: an approval that became durable after the network had been answered 91 is reversed.

Each late reversal has a command key derived from the key of the authorization, so repeating it, at this edge
or another, reverses once. The edge repeats it until an owner answers: owners move, and databases come back.
If the edge itself ends before that, the network's own reversal or the expiry of the hold releases the money.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable

import msgspec
import structlog

from actors.essential import start_essential
from actors.network.open_commands import OpenCommand
from engine.commands import Authorize, Command, Reverse, key_of_message, reference_of_message
from engine.ids import Derived, derive
from engine.iso8583.identity import late_reversal_key
from engine.iso8583.respond import NO_ACTION
from engine.limits import (
    LATE_REVERSAL_KEYS_MAX,
    LATE_REVERSAL_SECONDS_MAX,
    LATE_REVERSAL_SECONDS_MIN,
    LATE_REVERSAL_STOP_SECONDS,
)
from engine.replies import NotExecuted, Reply, WireAnswer

_log = structlog.get_logger(__name__)


class LateReversalCounts(msgspec.Struct):
    """Late reversals since the edge started, and their causes."""

    late_approvals: int = 0
    unknown_outcomes: int = 0
    """Authorizations answered with 91 or 96 that may have been approved."""
    issued: int = 0
    done: int = 0
    retries: int = 0
    abandoned: int = 0
    """Without an answer when the edge stopped."""
    no_action: int = 0
    """Without effect: another exchange of the same message got the approval, so the approval stands."""
    failed: int = 0
    """Refused by the owner, which is a bug."""


class LateReversals:
    """Submits late reversals in the background. ``command_key in late_reversals``: whether this edge has
    lately reversed that authorization."""

    def __init__(self, submit: Callable[[Command], Awaitable[Reply]]) -> None:
        self.counts = LateReversalCounts()
        self._submit = submit
        self._reversed: OrderedDict[bytes, None] = OrderedDict()
        self._tasks: set[asyncio.Task[None]] = set()

    def __contains__(self, command_key: bytes) -> bool:
        return command_key in self._reversed

    @property
    def open(self) -> int:
        """Late reversals without an answer."""
        return len(self._tasks)

    def reverse_if_late(self, open_command: OpenCommand) -> None:
        """Reverse an authorization that the network believes to have failed, after the last reply to its
        exchanges.

        Reversing an authorization that was never executed is harmless: the reversal is kept until the
        authorization arrives. Advices, presentments and reversals are not reversed; networks repeat them.
        """
        command = open_command.command
        if open_command.answered or open_command.withheld or not isinstance(command, Authorize):
            return
        if open_command.approved_late_minor is not None:
            self.counts.late_approvals += 1
            _log.warning("late_approval", authorization_id=command.id, trace=command.wire.rrn)
            self.reverse(command, open_command.approved_late_minor)
        elif open_command.outcome_unknown:
            self.counts.unknown_outcomes += 1
            self.reverse(command, command.amount_minor)

    def reverse(self, command: Authorize, approved_minor: int) -> None:
        """Reverse ``command``, which has or may have approved ``approved_minor``. Safe to call twice."""
        if command.command_key in self._reversed or not approved_minor:
            return
        self._reversed[command.command_key] = None
        if len(self._reversed) > LATE_REVERSAL_KEYS_MAX:
            self._reversed.popitem(last=False)
        self.counts.issued += 1
        task = start_essential(self._run(reversal_of(command, approved_minor)), "late-reversal")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def stop(self) -> None:
        """Wait up to ``LATE_REVERSAL_STOP_SECONDS`` for open late reversals, then cancel them."""
        if not self._tasks:
            return
        _, abandoned = await asyncio.wait(self._tasks, timeout=LATE_REVERSAL_STOP_SECONDS)
        self.counts.abandoned += len(abandoned)
        for task in abandoned:
            task.cancel()
        await asyncio.gather(*abandoned, return_exceptions=True)

    async def _run(self, reversal: Reverse) -> None:
        pause_seconds = LATE_REVERSAL_SECONDS_MIN
        while not await self._attempt(reversal):
            self.counts.retries += 1
            await asyncio.sleep(pause_seconds)
            pause_seconds = min(2 * pause_seconds, LATE_REVERSAL_SECONDS_MAX)

    async def _attempt(self, reversal: Reverse) -> bool:
        """Submit ``reversal`` once. Returns whether its owner answered."""
        try:
            reply = await self._submit(reversal)
        except Exception as failure:  # noqa: BLE001 - the hold must be released after any failure
            _log.warning("late_reversal_unanswered", error=type(failure).__name__)
            return False
        if isinstance(reply, WireAnswer) and reply.response_code == NO_ACTION:
            # The approval stands, so repeats of its message must get it.
            self.counts.no_action += 1
            self._reversed.pop(key_of_message(reversal.references[0]), None)
            return True
        if isinstance(reply, WireAnswer):
            self.counts.done += 1
            return True
        if isinstance(reply, NotExecuted) and reply.reason != "key_reused":
            return False
        self.counts.failed += 1
        _log.error("late_reversal_refused", card_id=reversal.card_id, reply=type(reply).__name__)
        return True


def reversal_of(command: Authorize, approved_minor: int) -> Reverse:
    """The late reversal of ``command``. Of an increment it reverses only the amount that the increment
    added."""
    key = late_reversal_key(command.command_key)
    return Reverse(
        # The owner derives from this id which exchange was late.
        id=derive(command.id, Derived.LATE_REVERSAL),
        command_key=key,
        card_id=command.card_id,
        # The key determines the whole command, so all late reversals of one authorization are true repeats.
        fingerprint=key,
        wire=command.wire,
        references=(reference_of_message(command.command_key),),
        increment_minor=approved_minor if command.references else None,
        late=True,
    )
