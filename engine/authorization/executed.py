"""What a command meets in its owner and what it leaves: shared by all that executes commands on cards."""

from __future__ import annotations

import msgspec

from engine.authorization.effects import (
    Effect,
    HoldLapsed,
)
from engine.authorization.events import Event
from engine.authorization.evolve import evolve
from engine.authorization.lifecycle import Record
from engine.cards.account import Account
from engine.cards.authorization import Authorization
from engine.cards.card import (
    Card,
)
from engine.decision.decide import Decision, Inputs
from engine.decision.delegation import Consulted
from engine.programmes.programme import ProgrammeConfig
from engine.replies import Problem, Reply

NOT_FOUND = Problem(404, "not-found", "There is no such card.")


class CommandContext(msgspec.Struct, frozen=True, gc=False):
    """What a command meets: the card, its funding account if it has one, its programme, and the
    authorization that a follow-up refers to, if there is one."""

    card: Card
    account: Account | None
    programme: ProgrammeConfig
    original: Authorization | None = None
    consulted: Consulted | None = None
    """What came of asking a delegated programme."""


class Executed(msgspec.Struct, frozen=True, gc=False):
    """The result of a command. Only one with ``journaled`` set is written; a refusal changes nothing."""

    reply: Reply
    journaled: bool = False
    effects: tuple[Effect, ...] = ()
    events: tuple[Event, ...] = ()
    inputs: Inputs | None = None
    outcome: Decision | Record | None = None
    """What the journal keeps as the explanation."""
    authorization_id: str | None = None
    """The transaction that the command was about."""


def lapse_due(met: CommandContext, now_ms: int) -> tuple[HoldLapsed, ...]:
    """End the account's holds that are past their expiry, before anything is decided on its balance."""
    expired = () if met.account is None else met.account.expired_holds(now_ms)
    if met.account is None or not expired:
        return ()
    lapsed = tuple(HoldLapsed(hold.id, hold.authorization_id) for hold in expired)
    evolve(met.card, met.account, None, lapsed)
    # The command itself moves the version: one command is one version, lapses and all.
    met.account.version -= 1
    return lapsed


def apply(met: CommandContext, lapsed: tuple[HoldLapsed, ...], effects: tuple[Effect, ...]) -> None:
    """Apply ``effects`` after ``lapsed``: together they are one step of the account."""
    version_before = met.account.version if met.account else 0
    evolve(met.card, met.account, met.original, effects)
    if lapsed and met.account is not None:
        met.account.version = version_before + 1
