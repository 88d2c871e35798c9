"""What a back-test changes, for which cards, in which window."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

import msgspec

from engine.cards.card import Card
from engine.controls import Control, in_precedence, kind_of
from engine.rules.evaluate import RuleSet, rule_set
from engine.rules.model import Rule
from engine.rules.observed import RuleName

ScopeType = Literal["programme", "card_product", "card"]


class Scope(msgspec.Struct, frozen=True):
    """The cards to which the change applies: all of a programme or of a card product, or one."""

    type: ScopeType
    id: str

    def covers(self, card: Card) -> bool:
        """Whether the change applies to ``card``."""
        if self.type == "programme":
            return card.programme_id == self.id
        return (card.card_product_id if self.type == "card_product" else card.id) == self.id


class ControlsChange(msgspec.Struct, frozen=True, omit_defaults=True):
    """A change of the controls of each card: those of the kinds in ``remove`` go, those in ``add`` come."""

    remove: tuple[str, ...] = ()
    add: tuple[Control, ...] = ()


class Change(msgspec.Struct, frozen=True, omit_defaults=True):
    """The change that a back-test examines."""

    controls: ControlsChange | None = None
    add_rules: tuple[Rule, ...] = ()
    """Rules that are in force for the cards of the scope, after the recorded rules of their own scope. A rule
    with the id of a recorded one replaces it."""
    remove_rules: tuple[str, ...] = ()
    """Ids of rules that are not in force."""


class Plan(msgspec.Struct, frozen=True, omit_defaults=True):
    """A back-test: ``change`` applies to decisions from ``from_ms`` to before ``to_ms``."""

    scope: Scope
    from_ms: int
    to_ms: int
    change: Change
    assume_presented: bool = True
    """Whether newly approved purchases are presented in full; otherwise their holds lapse."""


_SCOPES: Final = ("programme", "card_product", "card")
"""In the order of evaluation."""


class ChangedRules:
    """The authorization rules in force under a change, for each set of recorded rules."""

    def __init__(self, change: Change) -> None:
        self._added = change.add_rules
        self.added = rule_set(change.add_rules)
        """The rules that the change adds."""
        self._removed = {*change.remove_rules, *(rule.id for rule in change.add_rules)}
        self.any = bool(self._removed)
        """Whether any rule changes."""
        self._sets: dict[tuple[RuleName, ...], RuleSet] = {}

    def of(self, recorded: RuleSet, versions: Mapping[RuleName, Rule]) -> RuleSet:
        """The rules instead of ``recorded``, which are among ``versions``; ``recorded`` itself if they are
        the same. Shadow rules take no part."""
        if not self.any:
            return recorded
        found = self._sets.get(recorded.versions)
        if found is None:
            kept = [versions[name] for name in recorded.versions if name[0] not in self._removed]
            same = len(kept) == len(recorded.versions) and not self._added
            # Sorting is stable: added rules come after the recorded ones of their scope.
            ordered = sorted((*kept, *self._added), key=lambda rule: _SCOPES.index(rule.scope))
            found = self._sets[recorded.versions] = recorded if same else rule_set(ordered)
        return found


def added_controls(controls: tuple[Control, ...], changed: tuple[Control, ...]) -> tuple[Control, ...]:
    """Those of ``changed`` that are not among ``controls``."""
    return tuple(each for each in changed if each not in controls)


def changed_controls(controls: tuple[Control, ...], change: Change) -> tuple[Control, ...]:
    """``controls`` of a card after ``change``, in the order of evaluation."""
    if change.controls is None:
        return controls
    kept = tuple(each for each in controls if kind_of(each) not in change.controls.remove)
    return in_precedence((*kept, *change.controls.add))
