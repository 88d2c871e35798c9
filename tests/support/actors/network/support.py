"""An edge in front of owners that the test controls, and a peer that connects to it over TCP."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from actors.network.card_secrets import CardSecrets
from actors.network.cards import CardCredentials, CardsByDigest, IssuedCard
from actors.network.edge import Edge
from actors.network.exchange import MessageCommand
from actors.network.lookup import Lookup
from actors.network.probe_limiter import ProbeLimiter
from actors.network.respondent import Respondent
from actors.network.screen import Screen
from engine.commands import Authorize, Command, Reverse
from engine.ids import approval_code
from engine.iso8583.message import Message
from engine.iso8583.profiles import ISO87_ASCII
from engine.iso8583.track2 import write_track_2
from engine.pan import Masked, Pan, luhn_digit
from engine.replies import NotExecuted, Reply, WireAnswer
from tests.support.engine.iso8583.messages import EXAMPLE
from tests.support.steady_loop import advance

PAN = EXAMPLE["2"]
CARD_ID = "01900000-0000-7000-8000-0000000000a7"
CARD = IssuedCard(CARD_ID, 2029, 11, "1")
CREDENTIALS = CardCredentials(
    Pan(PAN), Masked("2911"), write_track_2(PAN, "2911", "123"), write_track_2(PAN, "2911", "456")
)
"""The data that a terminal reads from the card; the values in its tracks are made up."""
WAIT_SECONDS = 60.0
DEADLINE_MS = 5_000
"""The deadline of an edge whose requests ``let_expire`` lets expire."""
FIELDS = {int(number): value for number, value in EXAMPLE.items() if number != "t"}


def request(stan: int = 123, mti: str = "0100", **changes: str) -> Message:
    """The example message with this STAN; ``changes`` replace fields (``de4=…``)."""
    fields = FIELDS | {11: f"{stan:06d}", 37: f"632510{stan:06d}"}
    return Message(mti, fields | {int(name[2:]): value for name, value in changes.items()})


def unknown_number(serial: int) -> str:
    """A number with a valid check digit that belongs to no card."""
    body = f"499999{serial:09d}"
    return body + luhn_digit(body)


async def until(condition: Callable[[], Any]) -> None:
    """Wait until ``condition`` is true. Fails the test after ``WAIT_SECONDS``."""
    limit = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < limit, "condition not true in time"
        await asyncio.sleep(0.002)


class Owners:
    """Decide each command key once, with ``decide``, as owners and their journal do. Late reversals of the
    edge are collected in ``late_reversals`` and answered by ``reverse_late``."""

    def __init__(self) -> None:
        self.decide: Callable[[MessageCommand], Reply] = approve
        self.submitted: list[MessageCommand] = []
        self.late_reversals: list[Reverse] = []
        self.reverse_late: Callable[[Reverse], Reply] = accept
        self.gate = asyncio.Event()
        self.gate.set()
        self.gates: dict[str, asyncio.Event] = {}
        """Gates of individual messages, by STAN."""
        self._stored: dict[bytes, tuple[bytes, Reply]] = {}

    @property
    def authorizations(self) -> list[Authorize]:
        """The submitted authorizations."""
        return [command for command in self.submitted if isinstance(command, Authorize)]

    async def submit(self, command: Command, *, repeat: bool = False) -> Reply:
        """Like ``Router.submit``; waits for the gate of the message."""
        assert isinstance(command, MessageCommand)
        if isinstance(command, Reverse) and command.command_key == command.fingerprint:
            self.late_reversals.append(command)
            return self.reverse_late(command)
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


def approve(command: MessageCommand) -> WireAnswer:
    """The reply of an owner whose card has enough money."""
    if isinstance(command, Authorize):
        return WireAnswer("00", command.id, approval_code(command.id), command.amount_minor)
    return accept(command)


def outcome_for_all(outcome: Reply | BaseException) -> Callable[[MessageCommand], Reply]:
    """An owner that replies ``outcome`` to every command, or raises it."""

    def decide(_: MessageCommand) -> Reply:
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    return decide


def accept(command: MessageCommand) -> WireAnswer:
    """The reply to a command that cannot be declined."""
    return WireAnswer("00", command.id)


def decline(command: MessageCommand) -> WireAnswer:
    """The reply of an owner whose card has no money."""
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

    async def send_undecided(self, peer: Peer, *messages: Message) -> None:
        """Send requests that the owners get, and decide when ``owners.gate`` is set."""
        self.owners.gate.clear()
        peer.send(*messages)
        await until(lambda: len(self.owners.submitted) == len(messages))

    @asynccontextmanager
    async def peer(self) -> AsyncIterator[Peer]:
        """A connection for the duration of the context."""
        peer = await self.connect()
        try:
            yield peer
        finally:
            await peer.close()


class Peer:
    """A network that sends and receives frames."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, *messages: Message) -> None:
        """Send messages in one write."""
        self.writer.write(
            b"".join(ISO87_ASCII.framing.frame(ISO87_ASCII.encode(message)) for message in messages)
        )

    async def receive_bytes(self) -> bytes:
        """The payload of the next frame."""
        async with asyncio.timeout(WAIT_SECONDS):
            length = int.from_bytes(await self.reader.readexactly(2), "big")
            return await self.reader.readexactly(length)

    async def receive(self) -> Message:
        """The next message."""
        return ISO87_ASCII.decode(await self.receive_bytes())

    async def ask(self, message: Message) -> Message:
        """Send a message and return the next received one."""
        self.send(message)
        return await self.receive()

    async def is_closed(self) -> bool:
        """Wait until the edge closes the connection. Returns ``False`` if it sends more bytes."""
        async with asyncio.timeout(WAIT_SECONDS):
            try:
                return await self.reader.read(1) == b""
            except ConnectionError:
                return True

    async def close(self) -> None:
        """Close the connection."""
        self.writer.close()
        try:
            await self.writer.wait_closed()
        except ConnectionError:
            pass  # closed by the edge before


async def let_expire(harness: Harness, peer: Peer, message: Message) -> Message:
    """Send a message, let its deadline of ``DEADLINE_MS`` pass while its owner decides, and return the next
    received one."""
    before = len(harness.owners.submitted)
    peer.send(message)
    await until(lambda: len(harness.owners.submitted) > before)
    advance(DEADLINE_MS / 1000)
    return await peer.receive()


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
    should_shed: Callable[[str], bool] = lambda _card_id: False,
    live: bool = False,
    screen: Screen | None = None,
    link: str | None = None,
    signed_off: bool = False,
    **options: Any,
) -> AsyncIterator[Harness]:
    """An edge on a free port, or at the port of its ``entry``; ``options`` are arguments of ``Edge``."""
    owners = Owners()
    respondent = Respondent(
        owners.submit,
        lookup_of(card_secrets, {PAN: CARD}) if cards is None else cards,
        card_secrets,
        should_shed=should_shed,
        deadline_ms=deadline_ms,
        withheld_ms=withheld_ms,
        probes=probes,
        probe_delay_seconds=probe_delay_seconds,
        live=live,
        screen=screen,
        link=link,
    )
    harness = Harness(Edge(respondent, **options), respondent, owners, card_secrets)
    port = harness.edge.entry.port
    harness.address = await harness.edge.start("127.0.0.1", port, signed_off=signed_off)
    try:
        yield harness
    finally:
        owners.gate.set()
        await harness.edge.stop()
