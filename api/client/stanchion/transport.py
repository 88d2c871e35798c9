"""Conversations with the API over HTTP: one transport that blocks, and one that awaits."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from typing import Any, assert_never

import httpx2

from stanchion.conversation import (
    Conversation,
    Credentials,
    Pause,
    Send,
    SignIn,
    Step,
    Steps,
    T,
    first_page,
    page_after,
)
from stanchion.retries import RetryPolicy


class Transport:
    """Several threads may use it at once. ``close`` it at the end; twice is harmless."""

    def __init__(
        self,
        http: httpx2.Client,
        credentials: Credentials,
        retry: RetryPolicy,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """``http`` knows the base address and the time limits; ``clock`` and ``sleep`` are in seconds."""
        self.conversation = Conversation(http, credentials, retry, clock)
        self._http = http
        self._sleep = sleep
        self._signing_in = threading.Lock()

    def close(self) -> None:
        self._http.close()

    def request(
        self,
        method: str,
        path: str,
        *,
        body: Mapping[str, Any] | None = None,
        query: Mapping[str, Any] | None = None,
        idempotency_key: str | None = None,
    ) -> Any:
        """As ``Conversation.request``."""
        return self.run(self.conversation.request(method, path, body=body, query=query, key=idempotency_key))

    def walk(self, path: str, query: Mapping[str, Any] | None) -> Iterator[Any]:
        """Every row of a list; a page is fetched when its first row is asked for."""
        asked: Mapping[str, Any] | None = first_page(query)
        while asked is not None:
            page = self.request("GET", path, query=asked)
            yield from page["data"]
            asked = page_after(asked, page)

    def run(self, steps: Steps[T]) -> T:
        """What ``steps`` come to."""
        outcome: Any = None
        while True:
            try:
                step = steps.send(outcome)
            except StopIteration as done:
                result: T = done.value
                return result
            outcome = self._take(step)

    def _take(self, step: Step) -> Any:
        match step:
            case Send(request):
                try:
                    return self._http.send(request)
                except httpx2.TransportError as lost:
                    return lost
            case Pause(seconds):
                return self._sleep(seconds)
            case SignIn():
                with self._signing_in:
                    return self.run(self.conversation.token())
            case _:
                assert_never(step)


class AsyncTransport:
    """The same in one event loop of asyncio, for any number of its tasks at once."""

    def __init__(
        self,
        http: httpx2.AsyncClient,
        credentials: Credentials,
        retry: RetryPolicy,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """``http`` knows the base address and the time limits; ``clock`` and ``sleep`` are in seconds."""
        self.conversation = Conversation(http, credentials, retry, clock)
        self._http = http
        self._sleep = sleep
        self._signing_in = asyncio.Lock()

    async def close(self) -> None:
        await self._http.aclose()

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: Mapping[str, Any] | None = None,
        query: Mapping[str, Any] | None = None,
        idempotency_key: str | None = None,
    ) -> Any:
        """As ``Conversation.request``."""
        return await self.run(
            self.conversation.request(method, path, body=body, query=query, key=idempotency_key)
        )

    async def walk(self, path: str, query: Mapping[str, Any] | None) -> AsyncIterator[Any]:
        """Every row of a list; a page is fetched when its first row is asked for."""
        asked: Mapping[str, Any] | None = first_page(query)
        while asked is not None:
            page = await self.request("GET", path, query=asked)
            for row in page["data"]:
                yield row
            asked = page_after(asked, page)

    async def run(self, steps: Steps[T]) -> T:
        """What ``steps`` come to."""
        outcome: Any = None
        while True:
            try:
                step = steps.send(outcome)
            except StopIteration as done:
                result: T = done.value
                return result
            outcome = await self._take(step)

    async def _take(self, step: Step) -> Any:
        match step:
            case Send(request):
                try:
                    return await self._http.send(request)
                except httpx2.TransportError as lost:
                    return lost
            case Pause(seconds):
                return await self._sleep(seconds)
            case SignIn():
                async with self._signing_in:
                    return await self.run(self.conversation.token())
            case _:
                assert_never(step)
