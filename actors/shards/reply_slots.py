"""Replies of one call to a host, and mailboxes for replies that come after their call has returned.

Most replies leave together, when the commit of their batch is durable. A reply that waits for a programme's
decision endpoint must not delay its neighbours: the call returns ``Deferred`` for it, and the reply is put
into the caller's mailbox, from which the caller collects it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

from engine.limits import BACKLOG_REFUSE, MAILBOX_IDLE_SECONDS, MAILBOXES_MAX
from engine.replies import Deferred, Reply

DEFERRED: Final = Deferred()


class Mailbox:
    """Deferred replies for one caller, each with the ticket of its submission."""

    def __init__(self) -> None:
        # Bounded, because a dead caller collects no more.
        self._replies: deque[tuple[int, Reply]] = deque(maxlen=BACKLOG_REFUSE)
        self._filled = asyncio.Event()
        self.used_at = 0.0
        """Time of the caller's last call, in the loop's time."""

    def put(self, ticket: int, reply: Reply) -> None:
        """Keep a reply until it is collected."""
        self._replies.append((ticket, reply))
        self._filled.set()

    async def collect(self, seconds: float) -> list[tuple[int, Reply]]:
        """Wait for a reply, at most ``seconds``; returns and removes all replies."""
        try:
            async with asyncio.timeout(seconds):
                await self._filled.wait()
        except TimeoutError:
            return []
        replies = list(self._replies)
        self._replies.clear()
        self._filled.clear()
        return replies


class Mailboxes:
    """Mailboxes by caller, the least recently used first. A router with deferred replies collects
    continuously, so an idle mailbox belongs to a router that is gone, and is dropped."""

    def __init__(self) -> None:
        self._boxes: dict[str, Mailbox] = {}
        self._loop = asyncio.get_running_loop()

    def of(self, caller: str) -> Mailbox:
        """The mailbox of ``caller``."""
        box = self._boxes.pop(caller, None) or Mailbox()
        box.used_at = now = self._loop.time()
        self._boxes[caller] = box
        if len(self._boxes) > MAILBOXES_MAX:
            oldest = next(iter(self._boxes))
            if now - self._boxes[oldest].used_at > MAILBOX_IDLE_SECONDS:
                del self._boxes[oldest]
        return box


class ReplyBatch:
    """The replies of one call. The call returns when each is there or deferred."""

    def __init__(self, size: int, mailbox: Mailbox | None) -> None:
        self.mailbox = mailbox
        self._outstanding = size
        self._complete = asyncio.get_running_loop().create_future()

    def finish_one(self) -> None:
        """Wait for one reply less."""
        self._outstanding -= 1
        if not self._outstanding and not self._complete.done():
            self._complete.set_result(None)

    async def wait(self) -> None:
        """Wait for all replies. Cancelling the call does not affect other callers' replies."""
        await self._complete


class ReplySlot:
    """The reply to one submission of a batch."""

    __slots__ = ("_batch", "_deferred", "_reply", "_ticket")

    def __init__(self, batch: ReplyBatch, ticket: int) -> None:
        self._batch = batch
        self._ticket = ticket
        self._deferred = False
        self._reply: Reply | None = None

    def set(self, reply: Reply) -> None:
        """Give the caller its reply; call it once."""
        self._reply = reply
        if not self._deferred:
            self._batch.finish_one()
        elif self._batch.mailbox is not None:
            self._batch.mailbox.put(self._ticket, reply)

    def defer(self) -> None:
        """Let the call return without this reply, if the caller has a mailbox."""
        if self._batch.mailbox is not None and not self._deferred and self._reply is None:
            self._deferred = True
            self._batch.finish_one()

    def result(self) -> Reply:
        """The reply, or ``Deferred``; available after ``ReplyBatch.wait``."""
        if self._deferred:
            return DEFERRED
        assert self._reply is not None, "the batch is complete"
        return self._reply
