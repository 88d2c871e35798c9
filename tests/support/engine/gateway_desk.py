"""A card of a programme in gateway mode, for tests of follow-ups and of posting instructions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
import pytest

from engine.authorization.effects import AccountEffect
from engine.authorization.events import Event
from engine.authorization.executed import CommandContext, Executed
from engine.cards.account import Account
from engine.cards.authorization import Authorization, gateway_open_minor, status
from engine.cards.card import Card
from engine.commands import CardCommand
from engine.controls import PerTxnCap
from engine.decision.delegation import EndpointResult
from engine.programmes.programme import ProgrammeConfig
from tests.support.api.event_schemas import faults
from tests.support.engine.build import card, programme
from tests.support.engine.desk import SALE, Desk

ISSUED: Final = "authorization.posting_instruction.issued"
RELEASED: Final = "authorization.posting_instruction.released"
CREATED: Final = "clearing.posting_instruction.created"
_SHORT: Final = {
    (ISSUED, "authorization"): "A",
    (ISSUED, "increment"): "I",
    (ISSUED, "refund"): "R",
    (RELEASED, "credit"): "G",
    (RELEASED, "debit"): "T",
    (CREATED, "debit"): "D",
    (CREATED, "credit"): "C",
}


@dataclass
class GatewayDesk(Desk):
    """An unfunded card. ``endpoint_result`` is the result of each call to the programme's endpoint."""

    card: Card = field(default_factory=lambda: card(account_id=None))
    programme: ProgrammeConfig = field(default_factory=lambda: programme(mode="gateway"))
    endpoint_result: EndpointResult | None = None
    events: list[Event] = field(default_factory=list)

    @property
    def funding(self) -> Account | None:
        return None

    def context(self, original: Authorization | None) -> CommandContext:
        return CommandContext(self.card, None, self.programme, original, self.endpoint_result)

    def do(self, command: CardCommand) -> Executed:
        executed = super().do(command)
        assert not any(isinstance(effect, AccountEffect) for effect in executed.effects)
        self.events += executed.events
        return executed

    def status(self, sale: str = SALE) -> str:
        return status(self.sale(sale), held=False)

    def figures(self, sale: str = SALE) -> tuple[int, int, int, int]:
        """Approved, open, cleared and reversed."""
        known = self.sale(sale)
        return known.approved_minor, gateway_open_minor(known), known.cleared_minor, known.reversed_minor

    @property
    def counters(self) -> tuple[int, int]:
        return self.card.day_count, self.card.day_amount_minor

    def less(self, increment_minor: int, sale: str = SALE) -> str:
        """The reversal of one increment."""
        return self.reverse(sale, increment_minor=increment_minor)

    def instructions(self) -> str:
        """All posting instructions: A, I and R were issued (authorization, increment, refund), G and T
        released (of a sale, of a refund), D and C cleared (debit, credit)."""
        shown = []
        for event in self.events:
            data = msgspec.json.decode(event.data)
            for kind in ("type", "direction"):
                letter = _SHORT.get((event.type, data.get(kind, "")))
                shown += [f"{letter}{int(data['amount'].replace('.', ''))}"] if letter else []
        return " ".join(shown)

    def last(self, type_: str) -> dict[str, Any]:
        """The data of the last event of a type."""
        *_, newest = (event.data for event in self.events if event.type == type_)
        return msgspec.json.decode(newest, type=dict[str, Any])


def valid(desk: GatewayDesk) -> None:
    """Assert that every event fits the catalogue and has a unique id."""
    for event in desk.events:
        assert not faults(event.type, msgspec.json.decode(event.data))
    assert len({event.id for event in desk.events}) == len(desk.events)


def in_both_modes(table: Mapping[str, Any]) -> list[Any]:
    """The rows of ``table`` in managed and gateway mode; rows with a lapse in managed mode only."""
    return [
        pytest.param(name, gateway, id=f"{name}-{'gateway' if gateway else 'managed'}")
        for name in table
        for gateway in (False, True)
        if not (gateway and "expire" in str(table[name]))
    ]


def desk_in(gateway: bool) -> Desk:
    """A desk in gateway mode or in managed mode."""
    return GatewayDesk(card=card(account_id=None, controls=(PerTxnCap(40_000),))) if gateway else Desk()
