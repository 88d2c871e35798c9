"""An independent network: pyiso8583 over a socket, without code of the platform."""

from __future__ import annotations

import asyncio
from typing import Self

import iso8583
from iso8583.specs import default_ascii

from tests.support.conformance.dialects import ASCII, Dialect, Document

__all__ = ["Document", "Network", "decode", "encode", "identity"]

WAIT_SECONDS = 60.0


def encode(document: Document, *, lower: bool = False) -> bytes:
    """The payload of ``document``; with ``lower``, bitmaps are in lower case."""
    encoded, parts = iso8583.encode(dict(document), default_ascii)
    payload = bytes(encoded)
    header = 4 + 16 * (2 if "1" in parts else 1)
    return payload[:4] + (payload[4:header].lower() if lower else payload[4:header]) + payload[header:]


def decode(payload: bytes) -> Document:
    """The document in ``payload``."""
    document, _ = iso8583.decode(payload, default_ascii)
    return dict(document)


def identity(document: Document) -> tuple[str | None, ...]:
    """The fields by which answers match requests."""
    return tuple(document.get(field) for field in ("32", "11", "7", "37"))


class Network:
    """One connection to the edge. Tests give and get documents of the 1987 version."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, dialect: Dialect = ASCII
    ) -> None:
        self.reader = reader
        self.writer = writer
        self._dialect = dialect

    @classmethod
    async def connect(cls, address: tuple[str, int], dialect: Dialect = ASCII) -> Network:
        """A new connection, on which messages have the form of ``dialect``."""
        return cls(*await asyncio.open_connection(*address), dialect)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.writer.close()
        try:
            await self.writer.wait_closed()
        except ConnectionError:
            pass  # closed by the edge before

    def send_bytes(self, payload: bytes) -> None:
        """Send one frame."""
        self.writer.write(len(payload).to_bytes(2, "big") + payload)

    def send(self, document: Document) -> None:
        """Send one message."""
        self.send_bytes(self._dialect.encode(document))

    async def receive_bytes(self) -> bytes:
        """The payload of the next frame."""
        async with asyncio.timeout(WAIT_SECONDS):
            length = int.from_bytes(await self.reader.readexactly(2), "big")
            return await self.reader.readexactly(length)

    async def receive(self) -> Document:
        """The next message."""
        return self._dialect.decode(await self.receive_bytes())

    async def ask(self, document: Document) -> Document:
        """Send a message and return the next received one."""
        self.send(document)
        return await self.receive()

    async def closed(self) -> bool:
        """Wait until the edge closes the connection. Returns ``False`` if it sends more bytes."""
        async with asyncio.timeout(WAIT_SECONDS):
            try:
                return await self.reader.read(1) == b""
            except ConnectionError:
                return True
