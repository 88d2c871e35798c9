"""Network management of one link (0800, 0810): sign-on, sign-off, echo test and key change, from each side.

Instants are seconds of the event loop's clock. Requests of this side set no timers: the edge sweeps its
connections once a second and ends those whose peer owes an answer.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Final, Protocol

import msgspec
import structlog

from actors.clock import Clock
from actors.network.edge_counts import EdgeCounts
from actors.network.links.entry import LinkEntry
from actors.network.links.guard import Guard
from actors.network.links.mac import LinkMac
from engine.iso8583.acquirer import network_request
from engine.iso8583.elements import ElementError
from engine.iso8583.mac import MacKeyError
from engine.iso8583.message import Message
from engine.iso8583.profile import Profile
from engine.iso8583.respond import (
    ACCEPTED,
    DEADLINE_EXCEEDED,
    ECHO_TEST,
    KEY_CHANGE,
    NOT_SUPPORTED,
    SECURITY_VIOLATION,
    SIGN_OFF,
    SIGN_ON,
    network_management,
    refusal,
)
from engine.limits import LINK_REPLY_SECONDS

_STANS: Final = 999_999
_NAMES: Final = {SIGN_ON: "sign-on", SIGN_OFF: "sign-off", ECHO_TEST: "echo test", KEY_CHANGE: "key change"}
_log = structlog.get_logger(__name__)


class ManagementRequest(msgspec.Struct):
    """An 0800 of this side without an answer."""

    code: str
    """DE70."""
    sent_at: float


class ManagedConnection(Protocol):
    """A connection as network management sees it."""

    profile: Profile
    signed_on: bool
    mac_key: bytes | None
    """The key of the latest message whose MAC was right."""
    received_at: float
    asked: dict[str, ManagementRequest]
    """0800 of this side without an answer, by STAN."""

    def post(self, request: Message, mac_key: bytes | None = None) -> None:
        """Send a message of this side, on a link with MACs under ``mac_key`` or the current key."""

    def close(self) -> None:
        """Close, after everything queued has been sent."""


class NetworkManagement:
    """Speaks 0800 and 0810 on the connections of one link."""

    def __init__(
        self,
        entry: LinkEntry,
        guard: Guard,
        counts: EdgeCounts,
        clock: Clock,
        now: Callable[[], float],
        *,
        mac: LinkMac | None = None,
        reply_seconds: float = LINK_REPLY_SECONDS,
    ) -> None:
        self._entry = entry
        self._guard = guard
        self._counts = counts
        self._clock = clock
        self._now = now
        self._mac = mac
        self._reply_seconds = reply_seconds
        self._stans = itertools.count()
        self._next_key: bytes | None = None

    def opened(self, connection: ManagedConnection) -> None:
        """A connection is open: the side that connects signs on."""
        if not self._entry.listens and self._entry.sign_on != "none":
            self.ask(connection, SIGN_ON)
        if self._next_key is not None:
            self.announce_key(connection)

    def ask(self, connection: ManagedConnection, code: str, mac_key: bytes | None = None) -> None:
        """Send an 0800 with this DE70."""
        stan = f"{next(self._stans) % _STANS + 1:06d}"
        connection.asked[stan] = ManagementRequest(code, self._now())
        connection.post(network_request(code, stan, self._clock.now_ms()), mac_key)

    def answer(self, connection: ManagedConnection, request: Message) -> Message:
        """The 0810 to an 0800 of the peer."""
        profile = connection.profile
        try:
            code = profile.to_canonical(request)[0].fields.get(70)
        except ElementError:
            code = None
        if code == KEY_CHANGE:
            return refusal(request, self._change_key(connection), profile)
        if code == SIGN_ON and self._guard.signed_off:
            return refusal(request, DEADLINE_EXCEEDED, profile)
        response = network_management(request, profile.verification, profile)
        accepted = profile.codes.canonical(response.fields[39]) == ACCEPTED
        if accepted and code in (SIGN_ON, SIGN_OFF):
            connection.signed_on = code == SIGN_ON
        return response

    def answered(self, connection: ManagedConnection, response: Message) -> bool:
        """Take an 0810 of the peer, given in the form of the 1987 version. Returns whether it answers an
        0800 of this side."""
        request = connection.asked.pop(response.fields.get(11, ""), None)
        if request is None:
            return False
        response_code = response.fields.get(39, "")
        if response_code != ACCEPTED:
            self._failed(f"{_NAMES[request.code]} answered with {response_code or 'no DE39'}")
        if request.code == SIGN_ON:
            connection.signed_on = response_code == ACCEPTED
            if response_code != ACCEPTED and self._entry.sign_on == "required":
                connection.close()
        elif request.code == KEY_CHANGE:
            self._finish_key_change(response_code == ACCEPTED)
        return True

    def is_overdue(self, connection: ManagedConnection) -> bool:
        """Whether the peer owes the answer to an 0800 for too long."""
        now = self._now()
        for request in connection.asked.values():
            if now - request.sent_at > self._reply_seconds:
                self._failed(f"{_NAMES[request.code]} not answered")
                return True
        return False

    def probe_silent(self, connection: ManagedConnection) -> None:
        """Send an echo test if the peer has been silent for ``echo_seconds``."""
        seconds = self._entry.echo_seconds
        if seconds and not connection.asked and self._now() - connection.received_at >= seconds:
            self.ask(connection, ECHO_TEST)

    def key_to_announce(self) -> bool:
        """Read the file of the link's keys. Returns whether it has a new key that no peer has confirmed."""
        if self._mac is None:
            return False
        try:
            found = self._mac.reload()
        except MacKeyError as failure:
            self._failed(f"mac_key {failure}")
            return False
        announced, self._next_key = self._next_key, found
        return found is not None and found != announced

    def announce_key(self, connection: ManagedConnection) -> None:
        """Send a key change, with a MAC under the new key."""
        self.ask(connection, KEY_CHANGE, self._next_key)

    def _change_key(self, connection: ManagedConnection) -> str:
        """The peer uses the key of this message's MAC from now on."""
        if self._mac is None:
            return NOT_SUPPORTED
        if connection.mac_key is None:
            return SECURITY_VIOLATION
        self._mac.adopt(connection.mac_key)
        _log.info("link_key_changed", link=self._entry.name, by="peer")
        return ACCEPTED

    def _finish_key_change(self, accepted: bool) -> None:
        """Use the new key if the peer accepts it; otherwise announce it again when the file is read next."""
        key, self._next_key = self._next_key, None
        if accepted and self._mac is not None and key is not None:
            self._mac.adopt(key)
            _log.info("link_key_changed", link=self._entry.name, by="stanchion")

    def _failed(self, error: str) -> None:
        self._counts.note_error(error, self._clock.now_ms())
        _log.warning("link_management_failed", link=self._entry.name, error=error)
