"""Where answers go: to the connection that asked, at once or later."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from engine.iso8583.message import Message


class Requester(Protocol):
    """The sender of a request."""

    @property
    def source(self) -> str:
        """The address it comes from."""

    def answer(self, response: Message) -> None:
        """Sends ``response``."""

    def took_up(self) -> None:
        """One more request is being worked on."""

    def settled(self) -> None:
        """... and one less."""

    def recognized(self) -> None:
        """The request names an issued card."""


class DelayedRequester:
    """An asker whose answer leaves at ``due``, in the loop's time, and not before.

    Until then the request occupies a place of its connection, so the number of waiting answers is bounded as
    the number of open requests is.
    """

    def __init__(self, requester: Requester, due: float, sent: Callable[[], None] = lambda: None) -> None:
        """``sent`` is called when the answer leaves."""
        self._loop = asyncio.get_running_loop()
        self._asker = requester
        self._due = due
        self._sent = sent

    @property
    def source(self) -> str:
        return self._asker.source

    def answer(self, response: Message) -> None:
        self._loop.call_at(self._due, self._send, response)

    def took_up(self) -> None:
        self._asker.took_up()

    def settled(self) -> None:
        """The place is given back when the answer leaves."""

    def recognized(self) -> None:
        self._asker.recognized()

    def _send(self, response: Message) -> None:
        self._sent()
        self._asker.settled()
        self._asker.answer(response)
