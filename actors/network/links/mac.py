"""MACs of one link: verifies those of requests, and adds them to this side's messages.

A request whose MAC verifies under any key of the link is accepted, and its answer carries a MAC under the
same key. So messages in flight survive a change of keys.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from actors.network.links.entry import MacEntry
from actors.network.links.mac_keys import read_keys
from actors.vault import mac_of
from engine.iso8583.elements import ElementError
from engine.iso8583.mac import (
    PLACEHOLDER,
    PRIMARY,
    SECONDARY,
    check_key,
    covered,
    mac_field,
    presented_mac,
    same_mac,
    with_mac,
)
from engine.iso8583.message import Message
from engine.iso8583.profile import Profile
from engine.iso8583.profiles import ISO87_ASCII

MacOf = Callable[[str, bytes, bytes], bytes]

_FIELDS: Final = (PRIMARY, SECONDARY)


class MacCheck(Protocol):
    """The MACs of a link, as its guard and its edge use them."""

    def verify(self, message: Message, payload: bytes) -> bytes | None:
        """The key that verifies the MAC of ``message``, or ``None`` if the MAC is wrong or missing."""

    def encode(self, message: Message, key: bytes | None) -> bytes:
        """The bytes of ``message`` with a MAC under ``key``; ``None``: the link's current key."""


class LinkMac:
    """The MACs of one link under its keys. ``current`` is the key of messages of this side."""

    def __init__(self, entry: MacEntry, profile: Profile = ISO87_ASCII, compute: MacOf = mac_of) -> None:
        """Raises ``MacKeyError``."""
        self._entry = entry
        self._profile = profile
        self._compute = compute
        self._keys = read_keys(entry)
        self.current = self._keys[0]

    def __repr__(self) -> str:
        return f"LinkMac({self._entry.algorithm})"

    def verify(self, message: Message, payload: bytes) -> bytes | None:
        try:
            presented = presented_mac(message.fields)
        except ElementError:
            return None
        if presented is None:
            return None
        data = self._covered(payload)
        for key in self._keys:
            if same_mac(presented, self._compute(self._entry.algorithm, key, data)):
                return key
        return None

    def encode(self, message: Message, key: bytes | None) -> bytes:
        fields = dict(message.fields)
        fields[mac_field(fields)] = PLACEHOLDER
        payload = self._profile.encode(Message(message.mti, fields, message.header))
        mac = self._compute(self._entry.algorithm, key or self.current, self._covered(payload))
        return with_mac(payload, mac, self._profile.mac_bytes)

    def _covered(self, payload: bytes) -> bytes:
        """The bytes between the message header and the MAC."""
        return covered(payload[self._profile.header_bytes :], self._profile.mac_bytes)

    def adopt(self, key: bytes) -> None:
        """Use ``key``, which is one of the keys, for messages of this side from now on."""
        self.current = key

    def reload(self) -> bytes | None:
        """Read the file of keys again. Returns its first key if it is not the current one. Raises
        ``MacKeyError``; the keys then stay as they are."""
        if self._entry.file is None:
            return None
        keys = read_keys(self._entry)
        for key in keys:
            check_key(self._entry.algorithm, key)
        # The current key stays valid until the peer has confirmed the next one.
        self._keys = tuple(dict.fromkeys((*keys, self.current)))
        return None if keys[0] == self.current else keys[0]


def has_mac(message: Message) -> bool:
    """Whether ``message`` carries a MAC."""
    return PRIMARY in message.fields or SECONDARY in message.fields


def without_mac(message: Message) -> Message:
    """``message`` without its MAC, which is another one in a repeat."""
    fields = {number: value for number, value in message.fields.items() if number not in _FIELDS}
    return Message(message.mti, fields, message.header)
