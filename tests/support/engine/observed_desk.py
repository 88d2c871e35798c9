"""Desks that observe how each message changes the states of authorizations."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from engine.authorization.executed import Executed
from engine.cards.authorization import Authorization
from engine.cards.authorization_states import Event, State, is_reversed_by_edge, state_of
from engine.commands import Advise, Authorize, CardCommand, Expire, Present, Reverse
from tests.support.engine.build import CARD, an_id, key
from tests.support.engine.desk import Desk
from tests.support.engine.gateway_desk import GatewayDesk

Transition = tuple[State, Event, State]


@dataclass
class Observer(Desk):
    """``transitions`` are the observed changes, ``openings`` the first states of authorizations."""

    transitions: set[Transition] = field(default_factory=set)
    openings: set[tuple[str, State]] = field(default_factory=set)
    _states: dict[str, State] = field(default_factory=dict)

    def do(self, command: CardCommand) -> Executed:
        self._lapse()
        self._note(None, "expiry")
        original = self.original(command)
        before = None if original is None else self._figures(original)
        executed = super().do(command)
        changed = original is not None and self._figures(original) != before
        self._note(original if changed else None, event_of(command), opening_of(command))
        return executed

    def _lapse(self) -> None:
        """Close expired holds by a command of their own, so that each change has one cause."""
        if self.funding is not None and self.funding.expired_holds(self.now_ms):
            number = 0x50_0000 + self._next()
            super().do(Expire(id=an_id(number), command_key=key(number), card_id=CARD))

    def _note(self, changed: Authorization | None, event: Event, opening: str = "") -> None:
        for each in self.known:
            by_edge = is_reversed_by_edge(self.card, each, self.now_ms)
            state = state_of(each, self.funding, by_edge)
            before = self._states.get(each.id)
            self._states[each.id] = state
            if before is None:
                self.openings.add((opening, state))
            elif before != state or each is changed:
                self.transitions.add((before, event, state))

    def _figures(self, authorization: Authorization) -> bytes:
        hold = None if self.funding is None else self.funding.holds.get(authorization.hold_id or "")
        return msgspec.json.encode((authorization, hold))


def event_of(command: CardCommand) -> Event:
    """The event that ``command`` is for the authorization that it names."""
    if isinstance(command, Reverse):
        return "edge_reversal" if command.late else "reversal"
    if isinstance(command, Present):
        return "refund_presentment" if command.kind == "refund" else "presentment"
    if isinstance(command, Advise):
        return "advice"
    return "increment" if isinstance(command, Authorize) else "expiry"


def opening_of(command: CardCommand) -> str:
    """The kind of message that ``command`` is if it opens a transaction."""
    if isinstance(command, Present):
        return "unmatched_refund_presentment" if command.kind == "refund" else "force_post"
    if isinstance(command, Authorize) and command.kind == "refund":
        return "refund"
    if isinstance(command, Authorize):
        return "authorization" if command.amount_minor else "verification"
    return "advice"


@dataclass
class ObservedDesk(Observer):
    """A managed card."""


@dataclass
class ObservedGatewayDesk(Observer, GatewayDesk):
    """A card in gateway mode."""
