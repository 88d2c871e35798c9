"""Links in front of owners that the test controls, processors to which links connect, and TLS files."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import trustme

from actors.network.card_secrets import CardSecrets
from actors.network.cards import CardsByDigest
from actors.network.edge_counts import EdgeCounts
from actors.network.links.connecting import Connector
from actors.network.links.entry import LinkEntry, TlsEntry
from actors.network.links.mac import LinkMac
from actors.network.links.screening import Screening
from engine.iso8583.acquirer import network_request
from engine.iso8583.message import Message
from engine.iso8583.respond import SIGN_ON
from tests.support.actors.network.support import WAIT_SECONDS, Harness, Peer, running_edge

FAST_CONNECTOR = partial(Connector, pause_seconds_min=0.001, pause_seconds_max=0.01)


def entry_of(**fields: Any) -> LinkEntry:
    """A link that listens on a free port of loopback in test mode; ``fields`` replace this."""
    values: dict[str, Any] = {"name": "acme", "host": "127.0.0.1", "port": 0}
    return LinkEntry(**values | fields)


@asynccontextmanager
async def running_link(
    card_secrets: CardSecrets,
    entry: LinkEntry,
    cards: CardsByDigest | None = None,
    *,
    signed_off: bool = False,
    **options: Any,
) -> AsyncIterator[Harness]:
    """An edge with one link; ``options`` are arguments of ``Edge``."""
    counts = EdgeCounts()
    async with running_edge(
        card_secrets,
        cards,
        live=entry.live,
        screen=Screening(entry, counts) if entry.screens else None,
        signed_off=signed_off,
        entry=entry,
        counts=counts,
        mac=None if entry.mac is None else LinkMac(entry.mac),
        connector=FAST_CONNECTOR,
        **options,
    ) as harness:
        yield harness


def managing(code: str, stan: int = 7) -> Message:
    """An 0800 with this DE70."""
    return network_request(code, f"{stan:06d}", 1_795_253_400_000)


def state_of(harness: Harness) -> str:
    """The state of the link now."""
    return harness.edge.state


class Processor:
    """A peer that listens: the links under test connect to it."""

    def __init__(self) -> None:
        self._accepted: asyncio.Queue[Peer] = asyncio.Queue()
        self._server: asyncio.Server | None = None
        self._peers: list[Peer] = []
        self.port = 0

    async def start(self, tls: ssl.SSLContext | None = None, port: int = 0) -> None:
        """Listen."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", port, ssl=tls)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Stop listening, and close every connection."""
        if self._server is not None:
            self._server.close()
        for peer in self._peers:
            await peer.close()

    async def accept(self) -> Peer:
        """The next connection of the link."""
        async with asyncio.timeout(WAIT_SECONDS):
            return await self._accepted.get()

    async def signed_on(self) -> Peer:
        """The next connection of the link, after its sign-on was accepted."""
        peer = await self.accept()
        assert await confirm(peer) == SIGN_ON
        return peer

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = Peer(reader, writer)
        self._peers.append(peer)
        self._accepted.put_nowait(peer)


async def confirm(peer: Peer, response_code: str = "00") -> str:
    """Answer the next message, an 0800, of the link. Returns its DE70."""
    message = await peer.receive()
    assert message.mti == "0800"
    peer.send(Message("0810", message.fields | {39: response_code}))
    return message.fields[70]


@asynccontextmanager
async def processor(tls: ssl.SSLContext | None = None) -> AsyncIterator[Processor]:
    """A running processor."""
    running = Processor()
    await running.start(tls)
    try:
        yield running
    finally:
        await running.stop()


class Authority:
    """A certificate authority, and the files of certificates that it issues."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._authority = trustme.CA()
        self.ca = folder / "ca.pem"
        self.ca.write_bytes(self._authority.cert_pem.bytes())

    def issue(self, file: str, name: str) -> tuple[Path, Path]:
        """Write (or replace) the chain and the key of a certificate for ``name``. Returns their paths."""
        issued = self._authority.issue_cert(name)
        cert, key = self.folder / f"{file}.crt", self.folder / f"{file}.key"
        _replace(cert, b"".join(each.bytes() for each in issued.cert_chain_pems))
        _replace(key, issued.private_key_pem.bytes())
        return cert, key

    def tls(self, file: str = "stanchion", name: str = "stanchion.test", **fields: Any) -> TlsEntry:
        """TLS of a link, with a new certificate for ``name``."""
        cert, key = self.issue(file, name)
        return TlsEntry(cert=cert, key=key, ca=self.ca, **fields)

    def client(self, name: str | None, *, maximum: ssl.TLSVersion | None = None) -> ssl.SSLContext:
        """A client that presents a certificate for ``name``, or none."""
        context = ssl.create_default_context(cafile=self.ca)
        if name is not None:
            context.load_cert_chain(*self.issue(f"client-{name}", name))
        if maximum is not None:
            context.maximum_version = maximum
        return context

    def server(self, name: str) -> ssl.SSLContext:
        """A server with a certificate for ``name`` that demands one of its clients."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*self.issue(f"server-{name}", name))
        context.load_verify_locations(self.ca)
        context.verify_mode = ssl.CERT_REQUIRED
        return context


def _replace(path: Path, content: bytes) -> None:
    fresh = path.with_suffix(".new")
    fresh.write_bytes(content)
    fresh.replace(path)
