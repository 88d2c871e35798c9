"""The sender of a request, as the respondent sees it: it takes the answer, at once or later."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from engine.iso8583.message import Message
from engine.iso8583.profile import Profile


class Requester(Protocol):
    """The connection that a request came from."""

    @property
    def profile(self) -> Profile:
        """The profile of its link."""

    @property
    def source(self) -> str:
        """Its address (``connection_slots.source_of``)."""

    def answer(self, response: Message) -> None:
        """Send ``response``."""

    def request_started(self) -> None:
        """Count one more open request."""

    def request_finished(self) -> None:
        """Count one open request less."""

    def card_recognized(self) -> None:
        """Note that a request has named an issued card."""


class DelayedRequester:
    """A requester whose answer leaves at ``due``, in the loop's time.

    The request stays open until then, so the limit of open requests also bounds the delayed answers.
    """

    def __init__(self, requester: Requester, due: float, sent: Callable[[], None] = lambda: None) -> None:
        """``sent`` is called when the answer leaves."""
        self._loop = asyncio.get_running_loop()
        self._requester = requester
        self._due = due
        self._sent = sent

    @property
    def profile(self) -> Profile:
        return self._requester.profile

    @property
    def source(self) -> str:
        return self._requester.source

    def answer(self, response: Message) -> None:
        self._loop.call_at(self._due, self._send, response)

    def request_started(self) -> None:
        self._requester.request_started()

    def request_finished(self) -> None:
        """Does nothing: the request stays open until its answer leaves."""

    def card_recognized(self) -> None:
        self._requester.card_recognized()

    def _send(self, response: Message) -> None:
        self._sent()
        self._requester.request_finished()
        self._requester.answer(response)
