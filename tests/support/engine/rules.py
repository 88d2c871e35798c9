"""Authorization rules and their commands for tests."""

from __future__ import annotations

from typing import Any

import msgspec

from engine.commands import ChangeCardRule, ChangeProgrammeRule, CreateCardRule, CreateProgrammeRule
from engine.rules.model import Condition, Op, Rule, RuleChange, Velocity
from tests.support.engine.build import CARD, NOW_MS, PROGRAMME, TENANT, an_id, key


def condition(attribute: str, op: Op, value: Any) -> Condition:
    """``attribute op value``; a list becomes a tuple."""
    return Condition(attribute, op, tuple(value) if isinstance(value, list) else value)


def velocity(measure: Any, window: str, op: Op, value: Any, *where: Condition, of: Any = "card") -> Condition:
    """A condition on a velocity."""
    return Condition("velocity", op, value, Velocity(measure, window, where, of))


def rule(number: int, *when: Condition, **parts: Any) -> Rule:
    """An active rule of the programme that declines; without conditions, purchases at casinos."""
    made = Rule(
        id=an_id(0x0F_0000 + number),
        scope="programme",
        scope_id=PROGRAMME,
        name=f"Rule {number}",
        when=when or (condition("mcc", "in", ["7995"]),),
        reason=f"reason_{number}",
        state="active",
        created_ms=NOW_MS + number,
    )
    return msgspec.structs.replace(made, **parts)


def create_rule(
    number: int, *when: Condition, programme_id: str = PROGRAMME, **parts: Any
) -> CreateProgrammeRule:
    """A rule of a programme, on its shard."""
    made = rule(number, *when, **{"scope_id": programme_id} | parts)
    return CreateProgrammeRule(
        id=made.id,
        command_key=key(0x0F_0000 + number),
        programme_id=programme_id,
        tenant_id=TENANT,
        live=False,
        rule=made,
    )


def change_rule(
    number: int, times: int = 1, programme_id: str = PROGRAMME, **parts: Any
) -> ChangeProgrammeRule:
    """The change number ``times`` of the rule ``number`` of a programme."""
    return ChangeProgrammeRule(
        id=an_id(0x1F_0000 + 0x100 * number + times),
        command_key=key(0x1F_0000 + 0x100 * number + times),
        programme_id=programme_id,
        tenant_id=TENANT,
        live=False,
        change=RuleChange(rule_id=an_id(0x0F_0000 + number), **parts),
    )


def create_card_rule(number: int, *when: Condition, card_id: str = CARD, **parts: Any) -> CreateCardRule:
    """A rule of a card."""
    made = rule(number, *when, **{"scope": "card", "scope_id": card_id} | parts)
    return CreateCardRule(
        id=made.id,
        command_key=key(0x0F_0000 + number),
        card_id=card_id,
        tenant_id=TENANT,
        live=False,
        rule=made,
    )


def change_card_rule(number: int, times: int = 1, card_id: str = CARD, **parts: Any) -> ChangeCardRule:
    """The change number ``times`` of the rule ``number`` of a card."""
    return ChangeCardRule(
        id=an_id(0x1F_0000 + 0x100 * number + times),
        command_key=key(0x1F_0000 + 0x100 * number + times),
        card_id=card_id,
        tenant_id=TENANT,
        live=False,
        change=RuleChange(rule_id=an_id(0x0F_0000 + number), **parts),
    )
