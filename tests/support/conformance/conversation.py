"""Generates random conversations about one card: messages, and when, how often and in which order they
arrive.

An *exchange* is one message of a network. It is delivered one to five times: unchanged, as its repeat, or, if
it is a presentment, under a new trace number. Some exchanges have a second message with the same identity.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from tests.support.conformance.card_model import tags_of
from tests.support.conformance.peer import Document, encode

PAN = "4111111111111111"
_ACQUIRER = "515151"
_MERCHANT = "Corner shop".ljust(23) + "Dublin".ljust(15) + "IE"
_REPEATS = {"0100": "0101", "0120": "0121", "0220": "0221", "0400": "0401", "0420": "0421"}
_DAY_SECONDS = 86_400.0


@dataclass
class Exchange:
    """Messages with one identity: a second one has other content, as from a faulty sender."""

    contents: list[Document]


@dataclass(frozen=True)
class Delivery:
    """One arrival, ``at`` seconds after the start."""

    at: float
    exchange: Exchange
    content: int
    document: Document

    @property
    def payload(self) -> bytes:
        return encode(self.document)


@dataclass
class _Sale:
    """One sale and the messages about it."""

    network_txn_id: str
    arn: str
    presented: int = 0
    messages: list[Document] = field(default_factory=list)


class ConversationGenerator:
    """Generates a conversation of ``size`` exchanges about ``sales`` sales; with ``slow`` it lasts for
    weeks."""

    def __init__(self, rng: random.Random, start: datetime, size: int, sales: int, *, slow: bool) -> None:
        self._rng = rng
        self._now = start
        self._stan = rng.randrange(100_000)
        self._sales = [_Sale(f"L{number}", f"{number + 1:023d}") for number in range(sales)]
        self._slow = slow
        self._size = size
        self._next: list[Document] = []
        """Messages that an earlier message refers to and that were not generated."""

    def generate(self) -> list[Delivery]:
        """All deliveries in the order of their time."""
        deliveries: list[Delivery] = []
        at = 0.0
        for _ in range(self._size):
            exchange = self._exchange()
            deliveries += self._deliver(exchange, at)
            at += self._pause()
        deliveries.sort(key=lambda delivery: delivery.at)
        return deliveries

    def _pause(self) -> float:
        if self._slow and self._rng.random() < 0.25:
            return self._rng.uniform(0.5, 8.0) * _DAY_SECONDS
        return self._rng.choice((0.0, 0.0, 0.001, 0.5))

    def _deliver(self, exchange: Exchange, at: float) -> list[Delivery]:
        """One to five arrivals, most of them soon, some days later."""
        deliveries = []
        for _ in range(self._rng.randint(1, 5)):
            delay = self._rng.choice((0.0, 0.0, 0.001, self._rng.uniform(0, 3), self._rng.uniform(0, 60)))
            if self._slow and self._rng.random() < 0.1:
                delay += self._rng.uniform(0, 10) * _DAY_SECONDS
            content = 1 if len(exchange.contents) > 1 and self._rng.random() < 0.3 else 0
            document = self._repeat_of(exchange.contents[content])
            deliveries.append(Delivery(at + delay, exchange, content, document))
        return deliveries

    def _repeat_of(self, document: Document) -> Document:
        """A repeat of ``document``."""
        chance = self._rng.random()
        mti = document["t"]
        if chance < 0.4:
            return document
        if mti in ("0400", "0420") and chance < 0.7:
            return document | {"t": self._rng.choice(("0400", "0401", "0420", "0421"))}
        if mti == "0220" and chance < 0.7:
            return document | self._identity()
        return document | {"t": _REPEATS[mti]}

    # --- messages

    def _exchange(self) -> Exchange:
        sale = self._rng.choice(self._sales)
        build = self._rng.choices(_BUILDERS, _WEIGHTS)[0]
        document = self._next.pop() if self._next else build(self, sale)
        contents = [document]
        if document["t"] in ("0100", "0120", "0220") and self._rng.random() < 0.1:
            contents.append(document | {"4": f"{int(document['4']) + 7:012d}"})
        return Exchange(contents)

    def _identity(self) -> Document:
        self._stan = (self._stan + 1) % 1_000_000
        self._now += timedelta(seconds=self._rng.randint(0, 2))
        now, stan = self._now.astimezone(UTC), f"{self._stan:06d}"
        rrn = f"{now.year % 10}{now.timetuple().tm_yday:03d}{now.hour:02d}{stan}"
        return {"7": now.strftime("%m%d%H%M%S"), "11": stan, "37": rrn}

    def _message(self, mti: str, amount: int, network_txn_id: str | None, **tags: str) -> Document:
        document = {
            "t": mti,
            "2": PAN,
            "3": "000000",
            "4": f"{amount:012d}",
            **self._identity(),
            "18": "5411",
            "22": "051",
            "32": _ACQUIRER,
            "43": _MERCHANT,
            "49": "840" if self._rng.random() < 0.02 else "978",
        }
        named = ({"t04": network_txn_id} if network_txn_id else {}) | tags
        if named:
            document["48"] = "".join(f"{tag[1:]}{len(text):03d}{text}" for tag, text in named.items())
        return document

    def _amount(self) -> int:
        return self._rng.choice((1, 500, 2_500, self._rng.randint(1, 4_000), 9_900))

    def _authorize(self, sale: _Sale) -> Document:
        amount = 0 if self._rng.random() < 0.05 else self._amount()
        partial = (
            {"t07": self._rng.choice(("1", f"1{self._amount():012d}"))} if self._rng.random() < 0.2 else {}
        )
        # Some networks send no transaction id.
        network_txn_id = None if self._rng.random() < 0.1 else sale.network_txn_id
        return self._added(sale, self._message("0100", amount, network_txn_id, **partial))

    def _refund(self, sale: _Sale) -> Document:
        return self._added(sale, self._message("0100", self._amount(), sale.network_txn_id) | {"3": "200000"})

    def _increment(self, sale: _Sale) -> Document:
        return self._added(sale, self._message("0100", self._amount(), sale.network_txn_id, t06="INC"))

    def _added(self, sale: _Sale, document: Document) -> Document:
        sale.messages.append(document)
        return document

    def _reverse(self, sale: _Sale) -> Document:
        """Names the sale by its id, by one of its messages (which may be an increment), or by both."""
        mti = self._rng.choice(("0400", "0420"))
        original = self._rng.choice(sale.messages) if sale.messages and self._rng.random() < 0.6 else None
        if original is None and self._rng.random() < 0.4:
            original = self._rng.choice((self._authorize, self._increment))(sale)
            self._next.append(original)
        network_txn_id = sale.network_txn_id if original is None or self._rng.random() < 0.5 else None
        document = self._message(mti, self._amount(), network_txn_id) | {"49": "978"}
        if original is not None:
            document |= self._references_to(original)
        if self._rng.random() < 0.4:
            document["95"] = f"{self._rng.choice((0, 100, self._amount())):012d}" + "0" * 30
        return document

    def _references_to(self, message: Document) -> Document:
        """DE90, and sometimes the DE37 of the original."""
        named = {"90": message["t"] + message["11"] + message["7"] + _ACQUIRER.zfill(11) + "0" * 11}
        return named | ({"37": message["37"]} if self._rng.random() < 0.5 else {})

    def _present(self, sale: _Sale) -> Document:
        sale.presented += 1
        tags = {"t08": f"{sale.arn}{sale.presented:02d}", "t09": self._rng.choice("01")}
        amount = 0 if self._rng.random() < 0.02 else self._amount()
        document = self._message("0220", amount, sale.network_txn_id, **tags)
        if sale.messages and self._rng.random() < 0.3:
            document |= self._references_to(self._rng.choice(sale.messages))
        return document | ({"3": "200000"} if self._rng.random() < 0.15 else {})

    def _advise(self, sale: _Sale) -> Document:
        document = self._message("0120", self._amount(), sale.network_txn_id)
        return document | {"39": self._rng.choice(("00", "00", "05"))}


_BUILDERS: list[Callable[[ConversationGenerator, _Sale], Document]] = [
    ConversationGenerator._authorize,
    ConversationGenerator._increment,
    ConversationGenerator._reverse,
    ConversationGenerator._present,
    ConversationGenerator._advise,
    ConversationGenerator._refund,
]
_WEIGHTS = [30, 20, 22, 16, 8, 4]


def identity_of(document: Document) -> tuple[str, ...]:
    """The identity of an exchange: ARN and sequence of a presentment; class, STAN and time of other
    messages."""
    function = document["t"][1:3]
    if function == "22":
        return ("22", tags_of(document)["08"])
    return (function[0] if function[0] == "4" else function, document["11"], document["7"])
