"""An acquirer's session with an edge: one TCP connection, many messages in flight, answers in any order.

The session connects, signs on, reconnects after a loss, sends an echo test after ``echo_seconds`` without a
frame, and answers those of the edge. It does not repeat requests; its user decides whether to repeat a
request without an answer.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable

import structlog

from actors.clock import Clock, SystemClock
from actors.essential import start_essential
from actors.network.framed import FramedConnection
from engine.iso8583.acquirer import network_request
from engine.iso8583.codec import DecodeError, EncodeError
from engine.iso8583.elements import ElementError
from engine.iso8583.framing import BadFrame
from engine.iso8583.matching import Unanswered
from engine.iso8583.message import Message
from engine.iso8583.profile import Profile
from engine.iso8583.profiles import ISO87_ASCII
from engine.iso8583.respond import ECHO_TEST, SIGN_OFF, SIGN_ON, network_management
from engine.limits import ECHO_SECONDS, NETWORK_TIMEOUT_MS, RECONNECT_SECONDS_MAX, RECONNECT_SECONDS_MIN

_log = structlog.get_logger(__name__)
_STANS = 999_999
_MANAGEMENT = "0800"


class SessionError(Exception):
    """A message got no answer.

    SessionError
    ├── NotConnectedError   the message was not sent
    └── SessionLostError    the connection ended; the message may have arrived
    """


class NotConnectedError(SessionError):
    """There is no connection: the message was not sent."""


class SessionLostError(SessionError):
    """The connection ended before the answer came."""


class AcquirerSession:
    """Keeps one signed-on connection while it runs. ``start`` and ``stop`` are safe to call twice."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        profile: Profile = ISO87_ASCII,
        clock: Clock | None = None,
        echo_seconds: float = ECHO_SECONDS,
        reply_seconds: float = NETWORK_TIMEOUT_MS / 1000,
    ) -> None:
        """``profile``: the dialect of the edge. Messages given and returned have its canonical form."""
        self._address = (host, port)
        self._profile = profile
        self._clock = clock or SystemClock()
        self._echo_seconds = echo_seconds
        self._reply_seconds = reply_seconds
        self._stans = itertools.count()
        self._connection: _Connection | None = None
        self._signed_on = asyncio.Event()
        self._keeper: asyncio.Task[None] | None = None
        self.unmatched = 0
        """Frames that answered no open request."""

    def start(self) -> None:
        """Connect in the background."""
        self._keeper = self._keeper or start_essential(self._keep_connected(), "session")

    async def stop(self) -> None:
        """Sign off and close. Open requests fail with ``SessionLostError``."""
        if self._keeper is None:
            return
        self._keeper.cancel()
        await asyncio.gather(self._keeper, return_exceptions=True)
        self._keeper = None
        if self._connection is not None:
            self._connection.ask(self._network_request(SIGN_OFF))
            self._connection.close()
        self._connection = None
        self._signed_on.clear()

    async def connected(self, timeout_seconds: float) -> None:
        """Wait until the session is signed on. Raises ``NotConnectedError`` after ``timeout_seconds``."""
        if self._signed_on.is_set():
            return
        try:
            async with asyncio.timeout(timeout_seconds):
                await self._signed_on.wait()
        except TimeoutError:
            raise NotConnectedError from None

    def send(self, message: Message) -> asyncio.Future[Message]:
        """Send ``message``. The future gets the answer, even a late one, or ``SessionLostError``.

        Raises ``NotConnectedError`` without a connection and ``EncodeError`` for a message that the profile
        cannot carry.
        """
        if self._connection is None or not self._signed_on.is_set():
            raise NotConnectedError
        return self._connection.ask(message)

    def forget(self, message: Message) -> None:
        """Stop waiting for the answer to ``message``."""
        if self._connection is not None:
            self._connection.unanswered.forget(message)

    async def echo(self) -> None:
        """Send an echo test. Raises ``SessionError`` if no answer arrives in time."""
        await self._manage(ECHO_TEST)

    async def _keep_connected(self) -> None:
        pause_seconds = RECONNECT_SECONDS_MIN
        while True:
            try:
                await self._connect()
                pause_seconds = RECONNECT_SECONDS_MIN
                await self._watch_connection()
            except (OSError, SessionError) as failure:
                _log.info("session_down", error=type(failure).__name__)
            finally:
                self._signed_on.clear()
            await asyncio.sleep(pause_seconds)
            pause_seconds = min(2 * pause_seconds, RECONNECT_SECONDS_MAX)

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._reply_seconds):
                _, connection = await loop.create_connection(
                    lambda: _Connection(self._profile, self._clock, self._count_unmatched), *self._address
                )
        except TimeoutError:
            raise NotConnectedError from None
        self._connection = connection
        await self._manage(SIGN_ON)
        self._signed_on.set()

    async def _watch_connection(self) -> None:
        """Return when the connection has ended. Send an echo test after each silent ``echo_seconds``."""
        connection = self._connection
        while connection is not None and connection.open:
            received = connection.received
            try:
                async with asyncio.timeout(self._echo_seconds):
                    await connection.lost.wait()
            except TimeoutError:
                if connection.received == received:
                    await self.echo()

    async def _manage(self, code: str) -> None:
        connection = self._connection
        if connection is None:
            raise NotConnectedError
        request = self._network_request(code)
        try:
            async with asyncio.timeout(self._reply_seconds):
                answer = await connection.ask(request)
        except TimeoutError:
            connection.abort()
            raise SessionLostError from None
        if answer.fields.get(39) != "00":
            connection.abort()
            raise SessionLostError

    def _network_request(self, code: str) -> Message:
        return network_request(code, f"{next(self._stans) % _STANS + 1:06d}", self._clock.now_ms())

    def _count_unmatched(self) -> None:
        self.unmatched += 1


class _Connection(FramedConnection):
    """The acquirer's side of one connection."""

    def __init__(self, profile: Profile, clock: Clock, unmatched: Callable[[], None]) -> None:
        super().__init__(profile.framing)
        self._profile = profile
        self._clock = clock
        self._unmatched = unmatched
        self.unanswered: Unanswered[asyncio.Future[Message]] = Unanswered()
        self.lost = asyncio.Event()
        self.received = 0
        """Frames received."""

    def ask(self, message: Message) -> asyncio.Future[Message]:
        """Send ``message``. A repeat shares the future of its original while that has no answer."""
        payload = self._encode(message)
        future: asyncio.Future[Message] = self._loop.create_future()
        future.add_done_callback(_retrieve)
        if not self.open:
            future.set_exception(SessionLostError())
            return future
        waiting = self.unanswered.add(message, future)
        self.send(payload)
        return waiting or future

    def frame_received(self, payload: bytes) -> None:
        self.received += 1
        try:
            answer = self._profile.read_answer(self._profile.decode(payload))
        except (DecodeError, ElementError):
            self._unmatched()
            return
        if answer.mti == _MANAGEMENT:
            self.send(self._encode(network_management(answer)))
            return
        future = self.unanswered.take(answer)
        if future is None or future.done():
            self._unmatched()
        else:
            future.set_result(answer)

    def bad_frame_received(self, bad: BadFrame) -> None:
        self._unmatched()
        if bad.broken:
            self.abort()

    def _encode(self, message: Message) -> bytes:
        try:
            own = self._profile.own_request(message, self._clock.now_ms())
        except ElementError as error:
            raise EncodeError(f"DE{error.field}", error.problem) from None
        return self._profile.encode(own)

    def connection_lost(self, _failure: Exception | None) -> None:
        self.lost.set()
        for future in self.unanswered.drain():
            if not future.done():
                future.set_exception(SessionLostError())


def _retrieve(future: asyncio.Future[Message]) -> None:
    """Retrieve the exception, so asyncio does not log it: the caller may have stopped waiting."""
    if not future.cancelled():
        future.exception()
