"""Cards that share an account, in memory as their owner had them, folded from their journal."""

from __future__ import annotations

from collections import ChainMap
from copy import copy

import msgspec

from engine.authorization.effects import AuthorizationOpened, Effect, RulesChanged
from engine.authorization.executed import CommandContext, Executed
from engine.cards.account import Account
from engine.cards.authorization import Authorization
from engine.cards.authorization_index import AuthorizationIndex
from engine.cards.card import Card
from engine.cards.expiries import Expiries
from engine.commands import (
    AUTHORIZATION_COMMANDS,
    CardCommand,
    CreateCard,
    reference_of_id,
    reference_of_message,
)
from engine.decision.delegation import EndpointResult
from engine.execution.issuing import card_of, issue
from engine.programmes.programme import ProgrammeConfig
from engine.replay.programmes import ProgrammeVersions
from engine.rules.evaluate import NO_RULES, Past, RuleSet, recorded_rules
from engine.rules.model import Rule
from engine.rules.observed import RuleName, RulesInForce


class ReplayedCard(msgspec.Struct):
    """One card, with all authorizations of its past."""

    card: Card
    known: AuthorizationIndex


class ReplayedState:
    """The cards of one account, and the account; one card, or a card and its replacements, without an
    account."""

    __slots__ = ("account", "cards", "rules")

    def __init__(self) -> None:
        self.account: Account | None = None
        self.cards: dict[str, ReplayedCard] = {}
        self.rules: dict[RuleName, Rule] = {}
        """All versions of the authorization rules of the cards."""

    def issue(self, command: CreateCard, at_ms: int) -> Executed:
        """Issue a card, and open its account if this state has none."""
        card = card_of(command, at_ms)
        if self.account is None and command.account_id is not None:
            self.account = Account(
                id=command.account_id,
                tenant_id=command.tenant_id,
                live=command.live,
                programme_id=command.programme_id,
                currency=command.currency,
            )
        self.cards[command.id] = ReplayedCard(card, AuthorizationIndex())
        self.rules |= {(rule.id, rule.version): rule for rule in command.rules}
        return issue(command, card, self.account if command.account_id is not None else None)

    def context(
        self,
        card_id: str,
        command: CardCommand,
        programme: ProgrammeConfig,
        endpoint_result: EndpointResult | None,
        at_ms: int,
        rules: RuleSet = NO_RULES,
        past: Past | None = None,
    ) -> CommandContext:
        """The context of ``command`` on a card. Raises KeyError for a card that was not issued yet."""
        replayed = self.cards[card_id]
        account = self.account if replayed.card.account_id is not None else None
        original: Authorization | None = None
        if isinstance(command, AUTHORIZATION_COMMANDS) and command.references:
            original = replayed.known.find_original(command, account, at_ms)
        return CommandContext(replayed.card, account, programme, original, endpoint_result, rules, past)

    def recorded_rules(self, in_force: RulesInForce | None, programmes: ProgrammeVersions) -> RuleSet:
        """The authorization rules of a stored decision. Raises KeyError if a version is missing."""
        if in_force is None:
            return NO_RULES
        return recorded_rules(in_force, ChainMap(self.rules, programmes.rules))

    def record(
        self,
        card_id: str,
        command_key: bytes,
        effects: tuple[Effect, ...],
        authorization_id: str | None,
    ) -> None:
        """Count a journaled command, and add what it opened or named to the card's authorizations. Its
        effects have been applied."""
        replayed = self.cards[card_id]
        known = replayed.known
        replayed.card.seq += 1
        opened = False
        for effect in effects:
            if type(effect) is AuthorizationOpened:
                known.add(effect.authorization)
                opened = effect.authorization.command_key == command_key
            elif type(effect) is RulesChanged:
                self.rules |= {(rule.id, rule.version): rule for rule in effect.written}
        if authorization_id is None or opened:
            return
        about = reference_of_id(authorization_id)
        if about in known:
            known.add_reference(reference_of_message(command_key), known[about])

    def skip(self, card_id: str) -> None:
        """Count a journaled command that opened no authorization."""
        self.cards[card_id].card.seq += 1

    def copy(self) -> ReplayedState:
        """An independent copy: no change of one state appears in the other."""
        twin = ReplayedState()
        twin.rules = self.rules
        twin.account = None if self.account is None else _copy_account(self.account)
        twin.cards = {id_: _copy_card(each) for id_, each in self.cards.items()}
        return twin


def _copy_account(account: Account) -> Account:
    holds = {id_: copy(hold) for id_, hold in account.holds.items()}
    twin = copy(account)
    twin.holds = holds
    # The heap has the same order, so the holds keep their indexes.
    twin.expiries = Expiries(holds[hold.id] for hold in account.expiries)
    return twin


def _copy_card(replayed: ReplayedCard) -> ReplayedCard:
    card = copy(replayed.card)
    card.tombstones = dict(card.tombstones)
    return ReplayedCard(card, replayed.known.copy())
