"""Who waits for which reply: the submissions of one call, and replies that come after their call.

Most replies leave together, when the commit of their batch is durable. One that has to wait for the outside
world (a programme's decision endpoint) must not keep its neighbours: its call answers ``Deferred``, and the
reply is put into the caller's mailbox, from which the caller collects.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

from engine.limits import BACKLOG_REFUSE, MAILBOX_IDLE_SECONDS, MAILBOXES_MAX
from engine.replies import Deferred, Reply

DEFERRED: Final = Deferred()


class Mailbox:
    """Deferred replies for one caller, by the ticket of their submission."""

    def __init__(self) -> None:
        # Bounded: a caller that died collects nothing any more.
        self._replies: deque[tuple[int, Reply]] = deque(maxlen=BACKLOG_REFUSE)
        self._filled = asyncio.Event()
        self.used = 0.0
        """When its caller was here last, in the loop's time."""

    def put(self, ticket: int, reply: Reply) -> None:
        """Keep a reply until it is collected."""
        self._replies.append((ticket, reply))
        self._filled.set()

    async def collect(self, seconds: float) -> list[tuple[int, Reply]]:
        """All replies that are here, as soon as there is one; empty when none came in ``seconds``."""
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
    """Mailboxes by caller, the longest unused first. A router with deferred replies collects all the time, so
    only mailboxes of routers that are gone are forgotten."""

    def __init__(self) -> None:
        self._boxes: dict[str, Mailbox] = {}
        self._loop = asyncio.get_running_loop()

    def of(self, caller: str) -> Mailbox:
        """The mailbox of ``caller``."""
        box = self._boxes.pop(caller, None) or Mailbox()
        box.used = now = self._loop.time()
        self._boxes[caller] = box
        if len(self._boxes) > MAILBOXES_MAX:
            oldest = next(iter(self._boxes))
            if now - self._boxes[oldest].used > MAILBOX_IDLE_SECONDS:
                del self._boxes[oldest]
        return box


class Turn:
    """The submissions of one call; it is over when each has its reply or is deferred."""

    def __init__(self, size: int, mailbox: Mailbox | None) -> None:
        self.mailbox = mailbox
        self._left = size
        self._over = asyncio.get_running_loop().create_future()

    def leave(self) -> None:
        """One submission less to wait for."""
        self._left -= 1
        if not self._left and not self._over.done():
            self._over.set_result(None)

    async def over(self) -> None:
        """Wait for all. A caller that is cancelled takes nobody's reply with it."""
        await self._over


class Seat:
    """One submission in its turn."""

    __slots__ = ("_deferred", "_reply", "_ticket", "_turn")

    def __init__(self, turn: Turn, ticket: int) -> None:
        self._turn = turn
        self._ticket = ticket
        self._deferred = False
        self._reply: Reply | None = None

    def answer(self, reply: Reply) -> None:
        """``reply`` is what the caller wants; to be called once."""
        self._reply = reply
        if not self._deferred:
            self._turn.leave()
        elif self._turn.mailbox is not None:
            self._turn.mailbox.put(self._ticket, reply)

    def defer(self) -> None:
        """The call need not wait for this one, if its caller collects."""
        if self._turn.mailbox is not None and not self._deferred and self._reply is None:
            self._deferred = True
            self._turn.leave()

    def outcome(self) -> Reply:
        """What the call answers, once its turn is over."""
        if self._deferred:
            return DEFERRED
        assert self._reply is not None, "the turn is over"
        return self._reply
