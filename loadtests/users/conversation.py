"""An acquirer's side of the wire for one user: a connection, one request at a time.

It uses blocking sockets: each load user is a gevent greenlet that waits for its own answer. The engine builds
the messages; the caller keeps the references of its sales.
"""

from __future__ import annotations

import itertools
import os
import socket
import time
from typing import Final, Self

import msgspec

from engine.iso8583.acquirer import References, authorization_request
from engine.iso8583.acquirer import Sale as WireSale
from engine.iso8583.acquirer_follow_ups import FirstMessage, increment, presentment, reversal_advice
from engine.iso8583.elements import PresentmentReference, transmission_time
from engine.iso8583.framing import BadFrame, FrameCutter
from engine.iso8583.matching import matching_key
from engine.iso8583.message import Message
from engine.iso8583.profiles import ISO87_ASCII
from loadtests.generators.workload import Card

ANSWER_SECONDS_MAX: Final = 10.0
READ_BYTES: Final = 4_096
STANS: Final = 1_000_000

_serials = itertools.count(os.getpid())
"""Trace numbers of this process: none comes twice in a second."""


class WireError(Exception):
    """The request failed or was not approved. The message is one line without card data."""


class Authorized(msgspec.Struct, frozen=True):
    """An approved sale with the references that later messages use."""

    card: int
    """The card's index in the plan."""
    amount_minor: int
    first: FirstMessage
    network_txn_id: str


class Conversation:
    """One connection to the edge; a context manager. A failed request closes the connection, and the next one
    connects again."""

    def __init__(self, host: str, port: int, acquirer_id: str) -> None:
        self._address = (host, port)
        self._acquirer_id = acquirer_id
        self._socket: socket.socket | None = None
        self._cutter = FrameCutter()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; a second call does nothing."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def spend(self, number: int, card: Card, amount_minor: int, *, refund: bool = False) -> Authorized:
        """Authorize a purchase or a refund. Raises WireError unless it is approved."""
        references = self._references()
        sale = msgspec.structs.replace(_sale(card, amount_minor), kind="refund" if refund else "purchase")
        self._ask(authorization_request(sale, references))
        first = FirstMessage(self._acquirer_id, references.stan, transmission_time(references.sent_ms))
        assert references.network_txn_id is not None, "given to every sale"
        return Authorized(number, amount_minor, first, references.network_txn_id)

    def increment(self, sold: Authorized, card: Card, amount_minor: int) -> Authorized:
        """Raise the sale's hold by an increment."""
        self._ask(increment(_sale(card, amount_minor), self._references(sold), sold.first))
        return msgspec.structs.replace(sold, amount_minor=sold.amount_minor + amount_minor)

    def reverse(self, sold: Authorized, card: Card) -> None:
        """Reverse the sale in full."""
        self._ask(reversal_advice(_sale(card, sold.amount_minor), self._references(sold), sold.first, None))

    def clear(self, sold: Authorized, card: Card) -> None:
        """Present the sale."""
        references = self._references(sold)
        arn = f"{self._acquirer_id:0>6}{references.sent_ms % 10**11:011d}{references.stan}"
        sale = _sale(card, sold.amount_minor)
        self._ask(presentment(sale, references, sold.first, PresentmentReference(arn, 1), True))

    def _references(self, sold: Authorized | None = None) -> References:
        sent_ms = time.time_ns() // 1_000_000
        stan = f"{next(_serials) % STANS:06d}"
        network_txn_id = f"{sent_ms:013d}{stan}"[-15:] if sold is None else sold.network_txn_id
        return References(self._acquirer_id, stan, sent_ms, network_txn_id)

    def _ask(self, request: Message) -> None:
        """Send ``request`` and read its answer; it must approve."""
        try:
            answer = self._exchange(request)
        except OSError as failure:
            self.close()
            raise WireError(f"{request.mti}: {type(failure).__name__}") from None
        code = answer.fields.get(39)
        if code not in ("00", "10"):
            raise WireError(f"{request.mti}: response {code}")

    def _exchange(self, request: Message) -> Message:
        if self._socket is None:
            self._socket = socket.create_connection(self._address, ANSWER_SECONDS_MAX)
            self._cutter = FrameCutter()
        self._socket.sendall(ISO87_ASCII.framing.frame(ISO87_ASCII.encode(request)))
        while True:
            received = self._socket.recv(READ_BYTES)
            if not received:
                raise ConnectionResetError
            for payload in self._cutter.feed(received):
                if isinstance(payload, BadFrame):
                    raise ConnectionAbortedError
                answer = ISO87_ASCII.decode(payload)
                if matching_key(answer) == matching_key(request):
                    return answer


def _sale(card: Card, amount_minor: int) -> WireSale:
    return WireSale(
        pan=card.pan,
        expiry=card.expiry,
        amount_minor=amount_minor,
        currency="EUR",
        mcc="5411",
        merchant_name="Corner Grocer",
        merchant_country="IE",
        channel="pos",
        entry_mode="contactless",
    )
