"""Refuses messages before they are read: wrong MACs, and messages of a link that is not signed on."""

from __future__ import annotations

from typing import Final, Protocol

from actors.network.edge_counts import EdgeCounts
from actors.network.links.entry import LinkEntry
from actors.network.links.mac import MacCheck, has_mac, without_mac
from actors.network.links.refusing import Reason, note_refusal
from engine.iso8583.message import Message
from engine.iso8583.respond import DEADLINE_EXCEEDED, KEY_CHANGE, SECURITY_VIOLATION

_NETWORK_MANAGEMENT: Final = "8"


class GuardedConnection(Protocol):
    """A connection as its guard sees it."""

    signed_on: bool
    mac_key: bytes | None
    """The key of the latest message whose MAC was right."""


class Guard:
    """The checks of one link. While ``signed_off``, the link drains or is closed."""

    def __init__(self, entry: LinkEntry, counts: EdgeCounts, mac: MacCheck | None) -> None:
        self.signed_off = False
        self._entry = entry
        self._counts = counts
        self._mac = mac

    @property
    def needed(self) -> bool:
        """Whether any message can be refused."""
        return self.signed_off or self._mac is not None or self._entry.sign_on == "required"

    def admit(self, connection: GuardedConnection, message: Message, payload: bytes) -> Message | str:
        """``message`` without its MAC, or the DE39 with which it is refused."""
        if self._mac is not None:
            if has_mac(message):
                key = self._mac.verify(message, payload)
                if key is None:
                    return self._refuse("mac", message, SECURITY_VIOLATION)
                connection.mac_key = key
                message = without_mac(message)
            elif not _manages(message) or message.fields.get(70) == KEY_CHANGE:
                return self._refuse("mac", message, SECURITY_VIOLATION)
        if _manages(message):
            return message
        # 91 makes networks store and forward: the message comes again when the link is signed on.
        if self.signed_off:
            return self._refuse("signed_off", message, DEADLINE_EXCEEDED)
        if self._entry.sign_on == "required" and not connection.signed_on:
            return self._refuse("sign_on", message, DEADLINE_EXCEEDED)
        return message

    def _refuse(self, reason: Reason, message: Message, response_code: str) -> str:
        note_refusal(self._entry, self._counts, reason, message)
        return response_code


def _manages(message: Message) -> bool:
    return message.mti[1] == _NETWORK_MANAGEMENT
