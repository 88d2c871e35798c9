"""Commands that create or change an authorization rule, at the owner of its programme or card.

The owner keeps all rules of its scopes that are not retired, so that limits and states are decided without a
race. A change of the state alone keeps the version of the rule.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from engine.authorization.effects import Effect, RulesChanged
from engine.authorization.events import Event, event
from engine.authorization.evolve import evolve
from engine.authorization.executed import Executed
from engine.cards.card import Card
from engine.commands import ChangeCardRule, ChangeProgrammeRule, CreateCardRule, CreateProgrammeRule
from engine.ids import Derived, derive
from engine.instant import to_text
from engine.limits import RULES_ACTIVE_MAX, RULES_DRAFT_MAX, RULES_SHADOW_MAX
from engine.replies import Done, Problem, Reply
from engine.rules.model import Rule, RuleChange, State, may_become, rule_view

NOT_FOUND = Problem(404, "not-found", "There is no such authorization rule, or it is retired.")
_LIMITS: Final[dict[State, int]] = {
    "active": RULES_ACTIVE_MAX,
    "shadow": RULES_SHADOW_MAX,
    "draft": RULES_DRAFT_MAX,
}
_CONTENT: Final = ("name", "when", "action", "reason")

RuleCommand = CreateCardRule | ChangeCardRule | CreateProgrammeRule | ChangeProgrammeRule
RULE_COMMANDS: Final = (CreateCardRule, ChangeCardRule, CreateProgrammeRule, ChangeProgrammeRule)


class RuleChanged(msgspec.Struct, frozen=True):
    """The result of a rule command; ``rule`` is the changed rule, or ``None`` if nothing changed."""

    reply: Reply
    rule: Rule | None = None
    rules: tuple[Rule, ...] = ()
    """All rules of the owner after the command."""
    events: tuple[Event, ...] = ()


def change_rules(command: RuleCommand, rules: tuple[Rule, ...], now_ms: int) -> RuleChanged:
    """Create or change one of ``rules``, which are those of its owner."""
    if isinstance(command, CreateCardRule | CreateProgrammeRule):
        return _create(command.id, command.rule, rules, now_ms)
    return _change(command.id, command.change, rules, now_ms)


def change_card_rules(command: CreateCardRule | ChangeCardRule, card: Card, now_ms: int) -> Executed:
    """Create or change a rule of ``card``."""
    changed = change_rules(command, card.rules, now_ms)
    if changed.rule is None:
        return Executed(changed.reply)
    effects: tuple[Effect, ...] = (RulesChanged(changed.rules, (changed.rule,)),)
    evolve(card, None, None, effects)
    return Executed(changed.reply, True, effects, changed.events)


def _create(command_id: str, rule: Rule, rules: tuple[Rule, ...], now_ms: int) -> RuleChanged:
    new = msgspec.structs.replace(rule, id=command_id, version=1, created_ms=now_ms, updated_ms=now_ms)
    refusal = _refusal(new, rules)
    if refusal is not None:
        return RuleChanged(refusal)
    events = (_event(command_id, "authorization_rule.created", new, now_ms),)
    return RuleChanged(Done(201, rule_view(new)), new, (*rules, new), events)


def _change(command_id: str, change: RuleChange, rules: tuple[Rule, ...], now_ms: int) -> RuleChanged:
    before = next((rule for rule in rules if rule.id == change.rule_id), None)
    if before is None:
        return RuleChanged(NOT_FOUND)
    state = change.state or before.state
    if not may_become(before, state):
        detail = f"An authorization rule that is {before.state} cannot become {state}."
        return RuleChanged(Problem(409, "invalid-state-transition", detail))
    content = _changed_content(before, change)
    if not content and state == before.state:
        return RuleChanged(Done(200, rule_view(before)))
    version = before.version + 1 if content else before.version
    after = msgspec.structs.replace(before, **content, version=version, state=state, updated_ms=now_ms)
    others = tuple(rule for rule in rules if rule.id != before.id)
    refusal = _refusal(after, others) if state != before.state else None
    if refusal is not None:
        return RuleChanged(refusal)
    left = others if state == "retired" else tuple(after if each is before else each for each in rules)
    events = (_event(command_id, "authorization_rule.updated", after, now_ms),)
    return RuleChanged(Done(200, rule_view(after)), after, left, events)


def _changed_content(before: Rule, change: RuleChange) -> dict[str, Any]:
    given = {name: getattr(change, name) for name in _CONTENT}
    return {name: each for name, each in given.items() if each not in (None, getattr(before, name))}


def _refusal(rule: Rule, others: tuple[Rule, ...]) -> Problem | None:
    """A scope has a limited number of rules in each state."""
    limit = _LIMITS.get(rule.state)
    same = sum(1 for each in others if (each.scope_id, each.state) == (rule.scope_id, rule.state))
    if limit is None or same < limit:
        return None
    return Problem(409, "too-many-rules", f"This scope has {limit} rules that are {rule.state} already.")


def _event(command_id: str, type_: str, rule: Rule, now_ms: int) -> Event:
    data = {
        "rule_id": rule.id,
        "version": rule.version,
        "state": rule.state,
        "scope": {"type": rule.scope, "id": rule.scope_id},
        "occurred_at": to_text(now_ms),
    }
    return event(derive(command_id, Derived.EVENT_FIRST), type_, data)
