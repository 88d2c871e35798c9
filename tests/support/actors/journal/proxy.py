"""A TCP proxy between a journal and its server that cuts connections or drops answers."""

from __future__ import annotations

import asyncio
from typing import Self
from urllib.parse import urlsplit, urlunsplit


class Proxy:
    """Forwards TCP to the server of ``url``; ``address`` is the same database through the proxy."""

    def __init__(self, url: str) -> None:
        self._url = urlsplit(url)
        self._server: asyncio.Server | None = None
        self._pumps: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self.drops_answers = False
        """Whether the server's answers are dropped, as if it were frozen."""
        self.address = ""

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        user = self._url.netloc.rpartition("@")[0]
        self.address = urlunsplit(self._url._replace(netloc=f"{user}@127.0.0.1:{port}"))
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()
        for pump in tuple(self._pumps):
            pump.cancel()
        await asyncio.gather(*self._pumps, return_exceptions=True)

    def cut(self) -> None:
        """Reset all connections."""
        for writer in tuple(self._writers):
            writer.transport.abort()

    @property
    def connections(self) -> int:
        """Number of open connections."""
        return len(self._writers) // 2

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream = await asyncio.open_connection(self._url.hostname, self._url.port)
        both = {writer, upstream[1]}
        self._writers |= both
        for source, sink, answers in ((reader, upstream[1], False), (upstream[0], writer, True)):
            pump = asyncio.create_task(self._pump(source, sink, both, answers))
            self._pumps.add(pump)
            pump.add_done_callback(self._pumps.discard)

    async def _pump(
        self,
        source: asyncio.StreamReader,
        sink: asyncio.StreamWriter,
        both: set[asyncio.StreamWriter],
        answers: bool,
    ) -> None:
        try:
            while data := await source.read(65_536):
                if not (answers and self.drops_answers):
                    sink.write(data)
        except ConnectionError:
            pass  # the other side is reset below
        finally:
            self._writers -= both
            for writer in both:
                writer.transport.abort()
