"""A card whose programme keeps its own ledger, in memory: what networks say to it, and what the programme is
told to post.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from engine.authorization.effects import AccountEffect, AuthorizationOpened
from engine.authorization.events import Event
from engine.authorization.executed import CommandContext, Executed
from engine.cards.authorization import Authorization, relayed_minor, status
from engine.cards.card import Card
from engine.commands import AuthorizationCommand, CardCommand, reference_of_message
from engine.decision.delegation import Consulted
from engine.execution.execute import execute
from engine.programmes.programme import ProgrammeConfig
from tests.api.event_schemas import faults
from tests.engine.authorization.test_lifecycle import SALE, Desk
from tests.engine.build import card, programme

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
class Relay(Desk):
    """A card of a programme in gateway mode; it has no account, and the programme's endpoint says
    ``consulted``."""

    card: Card = field(default_factory=lambda: card(account_id=None))
    programme: ProgrammeConfig = field(default_factory=lambda: programme(mode="gateway"))
    consulted: Consulted | None = None
    told: list[Event] = field(default_factory=list)

    def do(self, command: CardCommand) -> Executed:
        original: Authorization | None = None
        if isinstance(command, AuthorizationCommand):
            original = self.known.original(command, None, self.now_ms)
        met = CommandContext(self.card, None, self.programme, original, self.consulted)
        executed = execute(command, met, self.now_ms)
        for effect in executed.effects:
            assert not isinstance(effect, AccountEffect)
            if isinstance(effect, AuthorizationOpened):
                self.known.learn(effect.authorization)
        if original is not None and executed.authorization_id == original.id:
            self.known.also(reference_of_message(command.command_key), original)
        self.told += executed.events
        self.done.append(executed)
        return executed

    def status(self, sale: str = SALE) -> str:
        return status(self.sale(sale), held=False)

    def figures(self, sale: str = SALE) -> tuple[int, int, int, int]:
        """Approved, still to come, cleared and given back."""
        known = self.sale(sale)
        return known.approved_minor, relayed_minor(known), known.cleared_minor, known.reversed_minor

    @property
    def counters(self) -> tuple[int, int]:
        return self.card.day_count, self.card.day_amount_minor

    def less(self, increment_minor: int, sale: str = SALE) -> str:
        """The reversal of one increment."""
        return self.reverse(sale, increment_minor=increment_minor)

    def instructions(self) -> str:
        """All that was to be posted: A, I and R are issued (authorization, increment, refund), G and T
        reversed (given back, taken back), D and C cleared (debit, credit)."""
        shown = []
        for event in self.told:
            data = msgspec.json.decode(event.data)
            for kind in ("type", "direction"):
                letter = _SHORT.get((event.type, data.get(kind, "")))
                shown += [f"{letter}{int(data['amount'].replace('.', ''))}"] if letter else []
        return " ".join(shown)

    def last(self, type_: str) -> dict[str, Any]:
        """The data of the last event of a type."""
        *_, newest = (event.data for event in self.told if event.type == type_)
        return msgspec.json.decode(newest, type=dict[str, Any])


def valid(desk: Relay) -> None:
    """Every event is what the catalogue says, and has an id of its own."""
    for event in desk.told:
        assert not faults(event.type, msgspec.json.decode(event.data))
    assert len({event.id for event in desk.told}) == len(desk.told)
