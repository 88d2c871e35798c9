"""A message transport and a simulation store that tests control."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from actors.network.acquirer_session import NotConnectedError
from actors.network.cards import CardCredentials
from actors.network.follow_up_sequence import FollowUpSequence
from actors.network.lookup import Lookup
from actors.network.simulation_store import PreparedFollowUp, RecordedSimulation, Simulation, StateChange
from engine.iso8583.message import Message
from engine.iso8583.respond import refusal
from engine.simulation import ForcePostRequest, SaleState
from tests.support.actors.network.support import CARD_ID, CREDENTIALS


def card_lookup() -> Lookup[str, CardCredentials]:
    async def fetch(card_ids: list[str]) -> dict[str, CardCredentials]:
        return {card_id: CREDENTIALS for card_id in card_ids if card_id == CARD_ID}

    return Lookup(fetch, 10)


def sale_id_of(follow_up: PreparedFollowUp) -> str:
    request = follow_up.request
    return "" if isinstance(request, ForcePostRequest) else request.original.request.simulation_id


class MemorySimulationStore:
    """Simulations and their state changes as lists."""

    def __init__(self) -> None:
        self.simulations: list[Simulation] = []
        self.changes: list[StateChange] = []
        self.sales: dict[str, SaleState] = {}
        self.card_states = {CARD_ID: "active"}
        self._next = 0

    async def take_stans(self, count: int) -> list[int]:
        self._next += count
        return list(range(self._next - count, self._next))

    async def insert(self, simulations: Sequence[Simulation]) -> None:
        self.simulations += simulations

    async def insert_active(self, simulations: Sequence[Simulation]) -> Mapping[str, str]:
        states = {
            each.request.simulation_id: self.card_states[each.request.card_id]
            for each in simulations
            if each.request.card_id in self.card_states
        }
        self.simulations += [
            each for each in simulations if states.get(each.request.simulation_id) == "active"
        ]
        return states

    async def insert_follow_ups(
        self, follow_ups: Sequence[PreparedFollowUp], *, automatic: bool = False
    ) -> list[RecordedSimulation]:
        known = {simulation.request.simulation_id: simulation for simulation in self.simulations}
        sales = {
            sale_id_of(follow_up): self.sales.get(sale_id_of(follow_up), SaleState(12_34))
            for follow_up in follow_ups
        }
        sequence = FollowUpSequence(known, sales)
        recorded = [sequence.apply(follow_up) for follow_up in follow_ups]
        self.sales |= {sale: applied.sale for sale, applied in sequence.applied.items()}
        self.simulations += [each.simulation for each in recorded if each.is_new]
        return recorded

    async def open_minor(self, simulation_id: str) -> int:
        return self.sales.get(simulation_id, SaleState(12_34)).open_minor

    async def unanswered(self) -> list[Simulation]:
        return [simulation for simulation in self.simulations if simulation.operation != "spend"]

    def record(self, change: StateChange) -> None:
        self.changes.append(change)

    async def drain(self) -> None:
        pass

    @property
    def states(self) -> list[str]:
        return [change.state for change in self.changes]


class FakeTransport:
    """A session whose answers the test sends. Set ``up`` to ``False`` to disconnect it."""

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
