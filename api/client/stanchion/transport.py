"""Perform the actions of ``ClientProtocol`` over HTTP: one blocking transport, and one for asyncio."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from typing import Any

import httpx2

from stanchion.compat import assert_never
from stanchion.content import Content
from stanchion.protocol import (
    Action,
    Actions,
    ClientProtocol,
    Credentials,
    GetToken,
    Pause,
    Receive,
    Send,
    T,
    first_page,
    page_after,
)
from stanchion.retries import RetryPolicy


class Transport:
    """The blocking transport. Several threads may share it. ``close`` may be called twice."""

    def __init__(
        self,
        http: httpx2.Client,
        credentials: Credentials,
        retry: RetryPolicy,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """``http`` has the base address and the timeouts; ``clock`` and ``sleep`` use seconds."""
        self.protocol = ClientProtocol(http, credentials, retry, clock)
        self._http = http
        self._sleep = sleep
        self._token_lock = threading.Lock()

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
        """See ``ClientProtocol.request``."""
        return self.run(self.protocol.request(method, path, body=body, query=query, key=idempotency_key))

    def walk(self, path: str, query: Mapping[str, Any] | None) -> Iterator[Any]:
        """Every row of a list. Each page is fetched when its first row is needed."""
        page_query: Mapping[str, Any] | None = first_page(query)
        while page_query is not None:
            page = self.request("GET", path, query=page_query)
            yield from page["data"]
            page_query = page_after(page_query, page)

    def run(self, actions: Actions[T]) -> T:
        """Perform ``actions`` and return the result of their generator."""
        outcome: Any = None
        while True:
            try:
                action = actions.send(outcome)
            except StopIteration as done:
                result: T = done.value
                return result
            outcome = self._perform(action)

    def _receive(self, request: httpx2.Request, content: Content) -> httpx2.Response:
        response = self._http.send(request, stream=True)
        try:
            if content.begin(response):
                for piece in response.iter_raw():
                    content.add(piece)
            else:
                response.read()
        finally:
            response.close()
        return response

    def _perform(self, action: Action) -> Any:
        match action:
            case Send(request):
                try:
                    return self._http.send(request)
                except httpx2.TransportError as lost:
                    return lost
            case Receive(request, content):
                try:
                    return self._receive(request, content)
                except httpx2.TransportError as lost:
                    return lost
            case Pause(seconds):
                return self._sleep(seconds)
            case GetToken():
                with self._token_lock:
                    return self.run(self.protocol.token())
            case _:
                assert_never(action)


class AsyncTransport:
    """The asyncio transport. Any number of tasks of one event loop may share it."""

    def __init__(
        self,
        http: httpx2.AsyncClient,
        credentials: Credentials,
        retry: RetryPolicy,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """``http`` has the base address and the timeouts; ``clock`` and ``sleep`` use seconds."""
        self.protocol = ClientProtocol(http, credentials, retry, clock)
        self._http = http
        self._sleep = sleep
        self._token_lock = asyncio.Lock()

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
        """See ``ClientProtocol.request``."""
        return await self.run(
            self.protocol.request(method, path, body=body, query=query, key=idempotency_key)
        )

    async def walk(self, path: str, query: Mapping[str, Any] | None) -> AsyncIterator[Any]:
        """Every row of a list. Each page is fetched when its first row is needed."""
        page_query: Mapping[str, Any] | None = first_page(query)
        while page_query is not None:
            page = await self.request("GET", path, query=page_query)
            for row in page["data"]:
                yield row
            page_query = page_after(page_query, page)

    async def run(self, actions: Actions[T]) -> T:
        """Perform ``actions`` and return the result of their generator."""
        outcome: Any = None
        while True:
            try:
                action = actions.send(outcome)
            except StopIteration as done:
                result: T = done.value
                return result
            outcome = await self._perform(action)

    async def _receive(self, request: httpx2.Request, content: Content) -> httpx2.Response:
        response = await self._http.send(request, stream=True)
        try:
            if content.begin(response):
                async for piece in response.aiter_raw():
                    content.add(piece)
            else:
                await response.aread()
        finally:
            await response.aclose()
        return response

    async def _perform(self, action: Action) -> Any:
        match action:
            case Send(request):
                try:
                    return await self._http.send(request)
                except httpx2.TransportError as lost:
                    return lost
            case Receive(request, content):
                try:
                    return await self._receive(request, content)
                except httpx2.TransportError as lost:
                    return lost
            case Pause(seconds):
                return await self._sleep(seconds)
            case GetToken():
                async with self._token_lock:
                    return await self.run(self.protocol.token())
            case _:
                assert_never(action)
