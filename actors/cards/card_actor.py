"""An active card, and an account that active cards share: what a host keeps in memory of each."""

from __future__ import annotations

import msgspec

from engine.cards.account import Account
from engine.cards.authorization import Authorization
from engine.cards.authorization_index import AuthorizationIndex
from engine.cards.card import Card
from engine.commands import AuthorizationCommand
from engine.limits import KNOWN_REFERENCES_MAX
from engine.programmes.programme import Programme
from engine.rules.evaluate import NO_RULES, RuleSet, rules_for
from engine.rules.model import Rule
from engine.rules.velocity import History


class CardActor(msgspec.Struct):
    """An active card. ``undurable`` counts its decided commands that are not durable yet.

    ``pledged_minor`` is the part of the declared balance that pending stand-in decisions reserve. ``known``
    caches authorizations by reference, for follow-ups. The card has one owner, which keeps the cache current.
    """

    card: Card
    account: Account | None
    undurable: int = 0
    pledged_minor: int = 0
    known: AuthorizationIndex = msgspec.field(default_factory=AuthorizationIndex)
    history: History | None = None
    """The past of the card, if its rules have velocities."""
    rules: RuleSet = NO_RULES
    """The rules in force when ``rules_of`` was last called."""
    rules_from: tuple[tuple[Rule, ...], tuple[Rule, ...]] = ((), ())
    """The rules of the programme and of the card from which ``rules`` were made."""

    def rules_of(self, programme: Programme) -> RuleSet:
        """The rules in force for the card, whose programme is ``programme``."""
        card = self.card
        if not programme.rules and not card.rules:
            return NO_RULES
        if self.rules_from[0] is not programme.rules or self.rules_from[1] is not card.rules:
            self.rules_from = (programme.rules, card.rules)
            self.rules = rules_for(card.card_product_id, programme.rules, card.rules)
        return self.rules

    def learn(self, authorization: Authorization) -> None:
        """Cache a new authorization under all its references."""
        self.known.add(authorization)

    def original(self, command: AuthorizationCommand, now_ms: int) -> Authorization | None:
        """The authorization that ``command`` follows up. All its references must have been looked up."""
        return self.known.find_original(command, self.account, now_ms)

    def forget_old(self) -> None:
        """Drop all but the newest references. Call it only if all changes of the card are durable."""
        self.known.evict_oldest(KNOWN_REFERENCES_MAX)


class ActiveAccount(msgspec.Struct):
    """An account in memory; ``users`` counts its active cards."""

    account: Account
    users: int = 0
    history: History | None = None
    """The past of all cards of the account, if the rules of one have velocities of accounts."""
