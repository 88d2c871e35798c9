"""Controls and rules of each card under the change of a back-test."""

from __future__ import annotations

from collections import ChainMap
from typing import NamedTuple

from engine.backtests.plan import ChangedRules, Plan, added_controls, changed_controls
from engine.cards.card import Card
from engine.controls import Control
from engine.replay.programmes import ProgrammeVersions
from engine.rules.evaluate import RuleSet
from engine.rules.model import Rule
from engine.rules.observed import RuleName


class ChangedControls(NamedTuple):
    """The controls of a card, the changed ones, and those of them that the change adds."""

    recorded: tuple[Control, ...]
    changed: tuple[Control, ...]
    added: tuple[Control, ...]


class CardChanges:
    """The change of ``plan`` for each card."""

    def __init__(self, plan: Plan, programmes: ProgrammeVersions) -> None:
        self._plan = plan
        self._programmes = programmes
        self.rules = ChangedRules(plan.change)
        self._controls: dict[str, ChangedControls] = {}

    def rules_of(self, card: Card, recorded: RuleSet, of_cards: dict[RuleName, Rule]) -> RuleSet:
        """The rules in force for ``card`` under the change, instead of ``recorded``. ``of_cards`` are the
        versions of the rules of single cards."""
        if not self.rules.any or not self._plan.scope.covers(card):
            return recorded
        return self.rules.of(recorded, ChainMap(of_cards, self._programmes.rules))

    def controls_of(self, card: Card) -> ChangedControls:
        """The controls of ``card``, with those under the change."""
        known = self._controls.get(card.id)
        if known is None or known.recorded is not card.controls:
            plan = self._plan
            covered = plan.scope.covers(card)
            changed = changed_controls(card.controls, plan.change) if covered else card.controls
            if changed == card.controls:
                changed = card.controls
            added = added_controls(card.controls, changed)
            known = self._controls[card.id] = ChangedControls(card.controls, changed, added)
        return known
