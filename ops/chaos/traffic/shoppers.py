"""Shoppers of a foreign network: each purchases, increments, reverses and clears on its own card, repeats
unanswered messages, and records every operation."""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import time
from collections.abc import Iterable
from typing import Final

import msgspec

from actors.network.acquirer_session import AcquirerSession, NotConnectedError, SessionLostError
from engine.iso8583.acquirer import References, Sale, authorization_request, quoted_authorization_id
from engine.iso8583.acquirer_follow_ups import FirstMessage, increment, presentment, reversal_advice
from engine.iso8583.elements import PresentmentReference
from engine.iso8583.message import Message, as_repeat
from engine.iso8583.respond import approves
from ops.histories.operations import History, Operation

ACQUIRER_ID: Final = "616161"
ANSWER_SECONDS_MAX: Final = 7.0
"""After this no answer can come: the edge answers everything within its deadline."""
REPEATS_MAX: Final = 12
SHOPPING_PAUSE_SECONDS: Final = 0.02
"""Mean pause of a shopper between two operations."""
PAUSE_SECONDS: Final = 0.02
PAUSE_SECONDS_MAX: Final = 1.0
"""Pause between repeats, doubling up to the maximum."""
PATIENCE_SECONDS: Final = 1.0
"""How long a purchase waits for a connection before it is given up."""
UNKNOWN_CODES: Final = frozenset({"91", "96"})
"""Response codes that leave the outcome unknown."""
_SALE: Final = {"mcc": "5411", "merchant_name": "Corner shop", "merchant_country": "IE", "channel": "pos"}

_shopper_serials = itertools.count(os.getpid() * 74, 2)
_flood_serials = itertools.count(os.getpid() * 74 + 1, 2)
"""Serial numbers for messages of another process (``flood``). All messages of the acquirer share one series
of trace numbers, so each process takes every second number."""


class Plastic(msgspec.Struct, frozen=True):
    """A card's data as a terminal reads it."""

    card_id: str
    pan: str
    expiry: str

    def __repr__(self) -> str:
        return f"Plastic({self.card_id})"


class OpenSale(msgspec.Struct):
    """An approved purchase and the messages sent for it."""

    sale: Sale
    first: FirstMessage
    life: str
    presented: int = 0


class Terminal:
    """Sends the messages of one card and records the answers."""

    def __init__(
        self, session: AcquirerSession, history: History, plastic: Plastic, dice: random.Random
    ) -> None:
        self._session = session
        self._history = history
        self._dice = dice
        self.plastic = plastic
        self._open: list[OpenSale] = []

    async def shop(self, pause_seconds: float) -> None:
        """Send one message after the other, with ``pause_seconds`` between them on average, until
        cancelled."""
        while True:
            await self.send_random()
            await asyncio.sleep(self._dice.uniform(0, 2 * pause_seconds))

    async def send_random(self) -> None:
        """Send one message of a random kind and wait for its answer."""
        dice = self._dice.random()
        if dice < 0.6 or not self._open:
            await self.purchase(patience_seconds=PATIENCE_SECONDS)
        elif dice < 0.7:
            await self._increment(self._dice.choice(self._open))
        elif dice < 0.85:
            await self._reverse(self._open.pop(self._dice.randrange(len(self._open))))
        else:
            await self._clear(self._open.pop(self._dice.randrange(len(self._open))))
        if len(self._open) > 8:
            await self._clear(self._open.pop(0))

    async def purchase(
        self,
        *,
        repeats: int = REPEATS_MAX,
        amount_minor: int | None = None,
        patience_seconds: float = ANSWER_SECONDS_MAX,
    ) -> Operation:
        """A new purchase, repeated until it is answered; returns the last operation. ``patience_seconds``:
        how long it waits for a connection."""
        sale, names = self.sale(amount_minor), self.references()
        message = authorization_request(sale, names)
        purchase = ("authorize", message, sale.amount_minor)
        operation = await self._until_answered(*purchase, repeats, patience_seconds=patience_seconds)
        if operation.outcome == "ok" and approves(operation.response_code or ""):
            first = FirstMessage(ACQUIRER_ID, names.stan, message.fields[7])
            self._open.append(OpenSale(sale, first, names.network_txn_id or ""))
        return operation

    def new_purchase(self) -> tuple[Message, int]:
        """The first message of a new purchase, not sent yet, and its amount."""
        sale = self.sale()
        return authorization_request(sale, self.references()), sale.amount_minor

    async def send(self, message: Message, amount_minor: int) -> Operation:
        """Send a message once."""
        return await self._send("authorize", message, amount_minor, first=True)

    async def _increment(self, open_sale: OpenSale) -> None:
        sale = msgspec.structs.replace(open_sale.sale, amount_minor=self._dice.randint(1, 300))
        message = increment(sale, self.references(open_sale.life), open_sale.first)
        await self._until_answered("increment", message, sale.amount_minor)

    async def _reverse(self, open_sale: OpenSale) -> None:
        names = self.references(open_sale.life)
        remaining_minor = self._dice.choice((None, None, 1))
        message = reversal_advice(open_sale.sale, names, open_sale.first, remaining_minor)
        await self._until_answered("reverse", message, open_sale.sale.amount_minor)

    async def _clear(self, open_sale: OpenSale) -> None:
        open_sale.presented += 1
        names = self.references(open_sale.life)
        reference = PresentmentReference(f"{names.stan}{time.time_ns() % 10**17:017d}", open_sale.presented)
        message = presentment(open_sale.sale, names, open_sale.first, reference, final=True)
        await self._until_answered("present", message, open_sale.sale.amount_minor)

    async def _until_answered(
        self,
        kind: str,
        message: Message,
        amount_minor: int,
        repeats: int = REPEATS_MAX,
        *,
        patience_seconds: float = ANSWER_SECONDS_MAX,
    ) -> Operation:
        """Send a message, and repeat it while its outcome is unknown. Some answered messages are repeated
        too. A message whose first copy could not be sent is given up."""
        operation = await self._send(kind, message, amount_minor, patience_seconds, first=True)
        for number in range(repeats):
            if operation.outcome != "info":
                break
            await asyncio.sleep(min(PAUSE_SECONDS * 2**number, PAUSE_SECONDS_MAX))
            message = as_repeat(message)
            operation = await self._send(kind, message, amount_minor)
        if operation.outcome == "ok" and self._dice.random() < 0.1:
            await self._send(kind, as_repeat(message), amount_minor)
        return operation

    async def _send(
        self,
        kind: str,
        message: Message,
        amount_minor: int,
        patience_seconds: float = ANSWER_SECONDS_MAX,
        *,
        first: bool = False,
    ) -> Operation:
        fields = message.fields
        operation = self._history.begin(
            Operation(
                card_id=self.plastic.card_id,
                kind=kind,  # type: ignore[arg-type]
                stan=fields[11],
                transmitted_at=fields[7],
                rrn=fields[37],
                amount_minor=amount_minor,
                began=0.0,
            )
        )
        try:
            await self._session.connected(patience_seconds)
            operation.began = time.monotonic()
            answer = self._session.send(message)
        except NotConnectedError:
            # This copy was not sent, but an earlier one may have been.
            self._history.end(operation, "fail" if first else "info")
            return operation
        try:
            async with asyncio.timeout(ANSWER_SECONDS_MAX):
                self._record(operation, await asyncio.shield(answer))
        except (TimeoutError, SessionLostError) as failure:
            self._session.forget(message)
            self._history.end(operation, "info")
            if isinstance(failure, TimeoutError):
                operation.response_code = "timeout"
        return operation

    def _record(self, operation: Operation, answer: Message) -> None:
        code = answer.fields.get(39, "")
        operation.response_code = code
        operation.authorization_id = quoted_authorization_id(answer)
        operation.approved_minor = int(answer.fields.get(4, "0"))
        self._history.end(operation, "info" if code in UNKNOWN_CODES else "ok")

    def unsent_request(self) -> Message:
        """An authorization request that is not sent here."""
        return authorization_request(self.sale(), _references(next(_flood_serials)))

    def sale(self, amount_minor: int | None = None) -> Sale:
        """A purchase with a given or a random amount."""
        return Sale(
            pan=self.plastic.pan,
            expiry=self.plastic.expiry,
            amount_minor=amount_minor or self._dice.randint(1, 900),
            currency="EUR",
            **_SALE,  # type: ignore[arg-type]
        )

    def references(self, life: str | None = None) -> References:
        """The references of a new message."""
        return _references(next(_shopper_serials), life)


def _references(serial: int, life: str | None = None) -> References:
    # Trace numbers repeat after a while; time and RRN then distinguish the messages.
    now_ms = time.time_ns() // 1_000_000
    return References(ACQUIRER_ID, f"{serial % 1_000_000:06d}", now_ms, life or f"CH{serial:012d}")


class Crowd:
    """Several shoppers on two connections, with ``pause_seconds`` between two operations of one on average.
    Call ``open``, ``begin``, ``end`` and ``close``."""

    def __init__(
        self,
        address: tuple[str, int],
        plastics: Iterable[Plastic],
        seed: int,
        *,
        pause_seconds: float = SHOPPING_PAUSE_SECONDS,
    ) -> None:
        self._pause_seconds = pause_seconds
        self._sessions = [AcquirerSession(*address), AcquirerSession(*address)]
        self.history = History()
        self.terminals = [
            Terminal(self._sessions[number % 2], self.history, plastic, random.Random(seed + number))
            for number, plastic in enumerate(plastics)
        ]
        self._work: list[asyncio.Task[None]] = []

    async def open(self) -> None:
        """Connect."""
        for session in self._sessions:
            session.start()
        for session in self._sessions:
            await session.connected(30)

    async def begin(self, terminals: Iterable[Terminal] | None = None) -> None:
        """Start all shoppers, or those at ``terminals``."""
        self._work = [
            asyncio.create_task(terminal.shop(self._pause_seconds))
            for terminal in terminals or self.terminals
        ]

    async def end(self) -> None:
        """Stop all shoppers; open operations stay unknown."""
        for task in self._work:
            task.cancel()
        results = await asyncio.gather(*self._work, return_exceptions=True)
        self._work = []
        failures = [each for each in results if not isinstance(each, asyncio.CancelledError)]
        if failures:
            raise ExceptionGroup(
                "shoppers failed", [each for each in failures if isinstance(each, Exception)]
            )

    async def close(self) -> None:
        """Disconnect."""
        for session in self._sessions:
            await session.stop()
