"""Cardholders of a foreign network: each spends, raises, gives back and settles on a card of its own, asks
again when it has heard nothing, and writes everything down."""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import time
from collections.abc import Iterable
from typing import Final

import msgspec

from actors.network.session import NotConnectedError, Session, SessionLostError
from engine.iso8583.acquirer import References, Sale, authorization_request, quoted_authorization_id
from engine.iso8583.acquirer_follow_ups import FirstMessage, increment, presentment, reversal_advice
from engine.iso8583.elements import PresentmentReference
from engine.iso8583.message import Message, as_repeat
from engine.iso8583.respond import approves
from ops.histories.operations import History, Operation

ACQUIRER_ID: Final = "616161"
ANSWER_SECONDS_MAX: Final = 7.0
"""After this nothing will come any more: the edge answers everything within its deadline."""
REPEATS_MAX: Final = 12
PAUSE_SECONDS: Final = 0.02
PAUSE_SECONDS_MAX: Final = 1.0
"""Between repeats, doubling from the one to the other."""
PATIENCE_SECONDS: Final = 1.0
"""How long a customer waits for a terminal that has no connection; then there is no sale."""
UNKNOWN: Final = frozenset({"91", "96"})
"""Answers that do not say what has happened."""
_SALE: Final = {"mcc": "5411", "merchant_name": "Corner shop", "merchant_country": "IE", "channel": "pos"}

_said = itertools.count(os.getpid() * 74, 2)
_unsaid = itertools.count(os.getpid() * 74 + 1, 2)
"""Serial numbers of messages that somebody else says: another process, beside the shoppers of this one. One
acquirer has one row of trace numbers, so both take every second of them."""


class Plastic(msgspec.Struct, frozen=True):
    """A card as a terminal reads it."""

    card_id: str
    pan: str
    expiry: str

    def __repr__(self) -> str:
        return f"Plastic({self.card_id})"


class OpenSale(msgspec.Struct):
    """An approved sale, as far as its merchant has come with it."""

    sale: Sale
    first: FirstMessage
    life: str
    presented: int = 0


class Terminal:
    """Says messages about one card and writes down what is heard."""

    def __init__(self, session: Session, history: History, plastic: Plastic, dice: random.Random) -> None:
        self._session = session
        self._history = history
        self._dice = dice
        self.plastic = plastic
        self._open: list[OpenSale] = []

    async def shop(self) -> None:
        """For ever."""
        while True:
            await self.step()
            await asyncio.sleep(self._dice.uniform(0, 2 * PAUSE_SECONDS))

    async def step(self) -> None:
        """One thing a merchant does, until it has been answered."""
        dice = self._dice.random()
        if dice < 0.6 or not self._open:
            await self.buy(patience_seconds=PATIENCE_SECONDS)
        elif dice < 0.7:
            await self._raise(self._dice.choice(self._open))
        elif dice < 0.85:
            await self._give_back(self._open.pop(self._dice.randrange(len(self._open))))
        else:
            await self._settle(self._open.pop(self._dice.randrange(len(self._open))))
        if len(self._open) > 8:
            await self._settle(self._open.pop(0))

    async def buy(
        self,
        *,
        repeats: int = REPEATS_MAX,
        amount_minor: int | None = None,
        patience_seconds: float = ANSWER_SECONDS_MAX,
    ) -> Operation:
        """A purchase; its last operation. ``patience_seconds``: how long it waits for a connection."""
        sale, names = self.sale(amount_minor), self.references()
        message = authorization_request(sale, names)
        said = ("authorize", message, sale.amount_minor)
        operation = await self._until_heard(*said, repeats, patience_seconds=patience_seconds)
        if operation.outcome == "ok" and approves(operation.response_code or ""):
            first = FirstMessage(ACQUIRER_ID, names.stan, message.fields[7])
            self._open.append(OpenSale(sale, first, names.network_txn_id or ""))
        return operation

    def original(self) -> tuple[Message, int]:
        """A purchase as its network says it first, and its amount; ``say`` says it."""
        sale = self.sale()
        return authorization_request(sale, self.references()), sale.amount_minor

    async def say(self, message: Message, amount_minor: int) -> Operation:
        """A message once, as it is."""
        return await self._say("authorize", message, amount_minor, first=True)

    async def _raise(self, bought: OpenSale) -> None:
        sale = msgspec.structs.replace(bought.sale, amount_minor=self._dice.randint(1, 300))
        message = increment(sale, self.references(bought.life), bought.first)
        await self._until_heard("increment", message, sale.amount_minor)

    async def _give_back(self, bought: OpenSale) -> None:
        names = self.references(bought.life)
        remaining_minor = self._dice.choice((None, None, 1))
        message = reversal_advice(bought.sale, names, bought.first, remaining_minor)
        await self._until_heard("reverse", message, bought.sale.amount_minor)

    async def _settle(self, bought: OpenSale) -> None:
        bought.presented += 1
        names = self.references(bought.life)
        reference = PresentmentReference(f"{names.stan}{time.time_ns() % 10**17:017d}", bought.presented)
        message = presentment(bought.sale, names, bought.first, reference, final=True)
        await self._until_heard("present", message, bought.sale.amount_minor)

    async def _until_heard(
        self,
        kind: str,
        message: Message,
        amount_minor: int,
        repeats: int = REPEATS_MAX,
        *,
        patience_seconds: float = ANSWER_SECONDS_MAX,
    ) -> Operation:
        """Say it, and say it again while nobody knows what has become of it; now and then once more. What
        could not even be said the first time is given up."""
        operation = await self._say(kind, message, amount_minor, patience_seconds, first=True)
        for number in range(repeats):
            if operation.outcome != "info":
                break
            await asyncio.sleep(min(PAUSE_SECONDS * 2**number, PAUSE_SECONDS_MAX))
            message = as_repeat(message)
            operation = await self._say(kind, message, amount_minor)
        if operation.outcome == "ok" and self._dice.random() < 0.1:
            await self._say(kind, as_repeat(message), amount_minor)
        return operation

    async def _say(
        self,
        kind: str,
        message: Message,
        amount_minor: int,
        patience_seconds: float = ANSWER_SECONDS_MAX,
        *,
        first: bool = False,
    ) -> Operation:
        fields = message.fields
        operation = self._history.invoke(
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
            # Nothing left; but an earlier copy of it may have.
            self._history.end(operation, "fail" if first else "info")
            return operation
        try:
            async with asyncio.timeout(ANSWER_SECONDS_MAX):
                self._heard(operation, await asyncio.shield(answer))
        except (TimeoutError, SessionLostError) as failure:
            self._session.forget(message)
            self._history.end(operation, "info")
            if isinstance(failure, TimeoutError):
                operation.response_code = "silence"
        return operation

    def _heard(self, operation: Operation, answer: Message) -> None:
        code = answer.fields.get(39, "")
        operation.response_code = code
        operation.authorization_id = quoted_authorization_id(answer)
        operation.approved_minor = int(answer.fields.get(4, "0"))
        self._history.end(operation, "info" if code in UNKNOWN else "ok")

    def request(self) -> Message:
        """An authorization that nobody says."""
        return authorization_request(self.sale(), _references(next(_unsaid)))

    def sale(self, amount_minor: int | None = None) -> Sale:
        """Something to buy, at that price or at any."""
        return Sale(
            pan=self.plastic.pan,
            expiry=self.plastic.expiry,
            amount_minor=amount_minor or self._dice.randint(1, 900),
            currency="EUR",
            **_SALE,  # type: ignore[arg-type]
        )

    def references(self, life: str | None = None) -> References:
        """Names for one more message."""
        return _references(next(_said), life)


def _references(serial: int, life: str | None = None) -> References:
    # A trace number comes again after a while; time and RRN then tell the two apart.
    now_ms = time.time_ns() // 1_000_000
    return References(ACQUIRER_ID, f"{serial % 1_000_000:06d}", now_ms, life or f"CH{serial:012d}")


class Crowd:
    """All shoppers; an async context manager around the time in which they shop."""

    def __init__(self, address: tuple[str, int], plastics: Iterable[Plastic], seed: int) -> None:
        self._sessions = [Session(*address), Session(*address)]
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
        """Everybody shops, or those at ``terminals``."""
        self._work = [asyncio.create_task(terminal.shop()) for terminal in terminals or self.terminals]

    async def end(self) -> None:
        """Everybody goes home; what is under way stays unknown."""
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
