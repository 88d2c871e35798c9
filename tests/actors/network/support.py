"""An edge without a platform behind it: owners, cards and a peer that tests can hold in their hands."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from actors.network.card_secrets import CardSecrets
from actors.network.cards import CardsByDigest, IssuedCard
from actors.network.edge import Edge
from actors.network.lookup import Lookup
from actors.network.probe_limiter import ProbeLimiter
from actors.network.respondent import FromWire, Respondent
from engine.commands import Authorize, Command, Reverse
from engine.ids import approval_code
from engine.iso8583.codec import decode, encode
from engine.iso8583.framing import frame
from engine.iso8583.message import Message
from engine.replies import NotExecuted, Reply, WireAnswer
from tests.engine.iso8583.messages import EXAMPLE

PAN = EXAMPLE["2"]
CARD_ID = "01900000-0000-7000-8000-0000000000a7"
CARD = IssuedCard(CARD_ID, 2029, 11, "1")
WAIT_SECONDS = 60.0
FIELDS = {int(number): value for number, value in EXAMPLE.items() if number != "t"}


def request(stan: int = 123, mti: str = "0100", **changes: str) -> Message:
    """The example under a STAN of its own; ``changes`` are fields (``de4=…``)."""
    fields = FIELDS | {11: f"{stan:06d}", 37: f"632510{stan:06d}"}
    return Message(mti, fields | {int(name[2:]): value for name, value in changes.items()})


async def until(condition: Callable[[], Any]) -> None:
    """Waits until ``condition`` is true; the test fails when it does not come true in time."""
    limit = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < limit, "the condition did not come true"
        await asyncio.sleep(0.002)


class Owners:
    """Decides every command with ``decide``, once for each command key, as owners and their journal do. The
    edge's own reversals are kept apart, in ``undone``."""

    def __init__(self) -> None:
        self.decide: Callable[[FromWire], Reply] = approve
        self.submitted: list[FromWire] = []
        self.undone: list[Reverse] = []
        self.undo: Callable[[Reverse], Reply] = accept
        self.gate = asyncio.Event()
        self.gate.set()
        self.gates: dict[str, asyncio.Event] = {}
        """Gates of single messages, by STAN."""
        self._stored: dict[bytes, tuple[bytes, Reply]] = {}

    @property
    def asked(self) -> list[Authorize]:
        """The authorizations among what was submitted."""
        return [command for command in self.submitted if isinstance(command, Authorize)]

    async def submit(self, command: Command, *, repeat: bool = False) -> Reply:
        """As the router's ``submit``; waits while its gate is shut."""
        assert isinstance(command, FromWire)
        if isinstance(command, Reverse) and command.command_key == command.fingerprint:
            self.undone.append(command)
            return self.undo(command)
        self.submitted.append(command)
        await self.gates.get(command.wire.stan, self.gate).wait()
        stored = self._stored.get(command.command_key)
        if stored is None:
            reply = self.decide(command)
            if isinstance(reply, WireAnswer):
                self._stored[command.command_key] = (command.fingerprint, reply)
            return reply
        if stored[0] != command.fingerprint:
            return NotExecuted("key_reused")
        assert isinstance(stored[1], WireAnswer)
        return msgspec.structs.replace(stored[1], replayed=True)


def approve(command: FromWire) -> WireAnswer:
    """What an owner says to a card with enough money."""
    if isinstance(command, Authorize):
        return WireAnswer("00", command.id, approval_code(command.id), command.amount_minor)
    return accept(command)


def accept(command: FromWire) -> WireAnswer:
    """... to what cannot be declined."""
    return WireAnswer("00", command.id)


def decline(command: FromWire) -> WireAnswer:
    """... and to a card without money."""
    return WireAnswer("51", command.id)


class Harness:
    """A running edge, its owners and its address."""

    def __init__(self, edge: Edge, respondent: Respondent, owners: Owners, card_secrets: CardSecrets) -> None:
        self.edge = edge
        self.respondent = respondent
        self.owners = owners
        self.card_secrets = card_secrets
        self.address = ("", 0)

    async def connect(self) -> Peer:
        """A new connection."""
        reader, writer = await asyncio.open_connection(*self.address)
        return Peer(reader, writer)

    @asynccontextmanager
    async def peer(self) -> AsyncIterator[Peer]:
        """A connection for a while."""
        peer = await self.connect()
        try:
            yield peer
        finally:
            await peer.close()


class Peer:
    """A network at the level of bytes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def say(self, *messages: Message) -> None:
        """Sends messages, in one write."""
        self.writer.write(b"".join(frame(encode(message)) for message in messages))

    async def hear_bytes(self) -> bytes:
        """The next frame's payload."""
        async with asyncio.timeout(WAIT_SECONDS):
            length = int.from_bytes(await self.reader.readexactly(2), "big")
            return await self.reader.readexactly(length)

    async def hear(self) -> Message:
        """The next message."""
        return decode(await self.hear_bytes())

    async def ask(self, message: Message) -> Message:
        """Sends a message and takes the next one for its answer."""
        self.say(message)
        return await self.hear()

    async def ended(self) -> bool:
        """Whether the other side closes the connection, having said no more."""
        async with asyncio.timeout(WAIT_SECONDS):
            try:
                return await self.reader.read(1) == b""
            except ConnectionError:
                return True

    async def close(self) -> None:
        """Hangs up."""
        self.writer.close()
        try:
            await self.writer.wait_closed()
        except ConnectionError:
            pass  # the other side was first


def lookup_of(card_secrets: CardSecrets, cards: Mapping[str, IssuedCard]) -> CardsByDigest:
    """Issued cards by their number."""
    by_digest = {card_secrets.digest(pan): card for pan, card in cards.items()}

    async def fetch(digests: list[bytes]) -> Mapping[bytes, IssuedCard]:
        return {digest: by_digest[digest] for digest in digests if digest in by_digest}

    return Lookup(fetch, 100)


@asynccontextmanager
async def running_edge(
    card_secrets: CardSecrets,
    cards: CardsByDigest | None = None,
    *,
    deadline_ms: int = 60_000,
    withheld_ms: int = 60_000,
    probes: ProbeLimiter | None = None,
    probe_delay_seconds: float = 0.0,
    sheds: Callable[[str], bool] = lambda _card_id: False,
    **options: Any,
) -> AsyncIterator[Harness]:
    """An edge on a free port; ``options`` are its own."""
    owners = Owners()
    respondent = Respondent(
        owners.submit,
        lookup_of(card_secrets, {PAN: CARD}) if cards is None else cards,
        card_secrets,
        sheds=sheds,
        deadline_ms=deadline_ms,
        withheld_ms=withheld_ms,
        probes=probes,
        probe_delay_seconds=probe_delay_seconds,
    )
    harness = Harness(Edge(respondent, **options), respondent, owners, card_secrets)
    harness.address = await harness.edge.start("127.0.0.1", 0)
    try:
        yield harness
    finally:
        owners.gate.set()
        await harness.edge.stop()
