"""A wire and a book in the test's hands."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from actors.network.cards import Plastic
from actors.network.lookup import Lookup
from actors.network.session import NotConnectedError
from actors.network.simulations import Draft, Move, Opened, Opening
from actors.network.stating import Stating
from engine.iso8583.message import Message
from engine.iso8583.respond import refusal
from engine.pan import Masked, Pan
from engine.simulation import ForcePostRequest, SaleBook
from tests.actors.network.support import CARD_ID, PAN


def plastics() -> Lookup[str, Plastic]:
    async def fetch(card_ids: list[str]) -> dict[str, Plastic]:
        return {card_id: Plastic(Pan(PAN), Masked("2911")) for card_id in card_ids if card_id == CARD_ID}

    return Lookup(fetch, 10)


def sale_of(draft: Draft) -> str:
    request = draft.request
    return "" if isinstance(request, ForcePostRequest) else request.original.request.simulation_id


class MemoryBook:
    """The book as a list: what was opened and how it moved."""

    def __init__(self) -> None:
        self.openings: list[Opening] = []
        self.moves: list[Move] = []
        self.books: dict[str, SaleBook] = {}
        self._next = 0

    async def take_stans(self, count: int) -> list[int]:
        self._next += count
        return list(range(self._next - count, self._next))

    async def open(self, openings: Sequence[Opening]) -> None:
        self.openings += openings

    async def follow(self, drafts: Sequence[Draft], *, automatic: bool = False) -> list[Opened]:
        known = {opening.request.simulation_id: opening for opening in self.openings}
        books = {sale_of(draft): self.books.get(sale_of(draft), SaleBook(12_34)) for draft in drafts}
        stating = Stating(known, books)
        opened = [stating.open(draft) for draft in drafts]
        self.books |= {sale: followed.book for sale, followed in stating.followed.items()}
        self.openings += [each.opening for each in opened if each.fresh]
        return opened

    async def open_minor(self, simulation_id: str) -> int:
        return self.books.get(simulation_id, SaleBook(12_34)).open_minor

    async def unanswered(self) -> list[Opening]:
        return [opening for opening in self.openings if opening.operation != "spend"]

    def move(self, move: Move) -> None:
        self.moves.append(move)

    async def drain(self) -> None:
        pass

    @property
    def states(self) -> list[str]:
        return [move.state for move in self.moves]


class FakeWire:
    """A session whose answers the test gives; the connection can be lost."""

    def __init__(self) -> None:
        self.sent: list[Message] = []
        self.answers: list[asyncio.Future[Message]] = []
        self.forgotten: list[Message] = []
        self.up = True

    async def connected(self, timeout_seconds: float) -> None:
        if not self.up:
            raise NotConnectedError

    def send(self, message: Message) -> asyncio.Future[Message]:
        if not self.up:
            raise NotConnectedError
        self.sent.append(message)
        self.answers.append(asyncio.get_running_loop().create_future())
        return self.answers[-1]

    def forget(self, message: Message) -> None:
        self.forgotten.append(message)

    def answer(self, number: int, code: str) -> None:
        self.answers[number].set_result(refusal(self.sent[number], code))
