"""Creating and changing authorization rules at their owner: states, versions, limits, events."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from engine.authorization.executed import CommandContext
from engine.cards.card import Card
from engine.execution.changing_rules import NOT_FOUND, change_rules
from engine.execution.execute import execute
from engine.execution.execute_programme import concerns_hosts, execute_programme
from engine.limits import RULES_ACTIVE_MAX, RULES_DRAFT_MAX, RULES_SHADOW_MAX
from engine.replies import Done, Problem
from engine.rules.model import TRANSITIONS, Rule, rule_view
from tests.support.engine.build import NOW_MS, account, an_id, card, governed, programme
from tests.support.engine.rules import (
    change_card_rule,
    change_rule,
    condition,
    create_card_rule,
    create_rule,
    rule,
)

LATER = NOW_MS + 60_000
GROCER = condition("mcc", "eq", "5411")


def test_a_new_rule_has_its_owners_times_and_version_1() -> None:
    made = create_rule(1, version=9, created_ms=1, updated_ms=2)
    changed = change_rules(made, (), LATER)
    expected = rule(1, version=1, created_ms=LATER, updated_ms=LATER)
    assert changed.rule == expected
    assert changed.rules == (expected,)
    assert changed.reply == Done(201, rule_view(expected))
    (event,) = changed.events
    assert event.type == "authorization_rule.created"
    assert msgspec.json.decode(event.data) == {
        "rule_id": expected.id,
        "version": 1,
        "state": "active",
        "scope": {"type": "programme", "id": expected.scope_id},
        "occurred_at": "2026-11-21T10:01:00.000Z",
    }


@pytest.mark.parametrize(
    ("parts", "version"),
    [
        ({"name": "Other"}, 2),
        ({"when": (GROCER,)}, 2),
        ({"action": "require_authentication"}, 2),
        ({"reason": "other"}, 2),
        ({"state": "shadow"}, 1),
        ({"state": "shadow", "name": "Other"}, 2),
    ],
)
def test_a_change_of_the_content_is_a_new_version(parts: dict[str, Any], version: int) -> None:
    before = (rule(1), rule(2))
    changed = change_rules(change_rule(1, **parts), before, LATER)
    assert changed.rule == msgspec.structs.replace(before[0], version=version, updated_ms=LATER, **parts)
    assert changed.rules == (changed.rule, before[1])
    assert [event.type for event in changed.events] == ["authorization_rule.updated"]
    assert changed.reply == Done(200, rule_view(changed.rule))


@pytest.mark.parametrize("parts", [{}, {"name": "Rule 1", "state": "active"}, {"reason": "reason_1"}])
def test_a_change_without_a_difference_changes_nothing(parts: dict[str, Any]) -> None:
    changed = change_rules(change_rule(1, **parts), (rule(1),), LATER)
    assert changed.reply == Done(200, rule_view(rule(1)))
    assert changed.rule is None


@pytest.mark.parametrize("before", ["draft", "shadow", "active"])
@pytest.mark.parametrize("after", ["draft", "shadow", "active", "retired"])
def test_states(before: Any, after: Any) -> None:
    changed = change_rules(change_rule(1, state=after), (rule(1, state=before), rule(2)), LATER)
    if after not in TRANSITIONS[before] and after != before:
        assert isinstance(changed.reply, Problem)
        assert (changed.reply.status, changed.reply.slug) == (409, "invalid-state-transition")
        assert changed.rule is None
    elif after == "retired":
        assert changed.rules == (rule(2),)
        assert changed.rule is not None
        assert changed.rule.state == "retired"
    else:
        assert isinstance(changed.reply, Done)


def test_unknown_and_retired_rules_are_not_found() -> None:
    assert change_rules(change_rule(9, state="active"), (rule(1),), LATER).reply == NOT_FOUND


@pytest.mark.parametrize(
    ("state", "limit"),
    [("active", RULES_ACTIVE_MAX), ("shadow", RULES_SHADOW_MAX), ("draft", RULES_DRAFT_MAX)],
)
def test_a_scope_has_a_limited_number_of_rules_in_each_state(state: Any, limit: int) -> None:
    full = tuple(rule(number, state=state) for number in range(1, limit + 1))
    refused = change_rules(create_rule(200, state=state), full, LATER).reply
    assert isinstance(refused, Problem)
    assert (refused.status, refused.slug) == (409, "too-many-rules")
    other_scope = create_rule(200, state=state, scope="card_product", scope_id=an_id(5))
    assert isinstance(change_rules(other_scope, full, LATER).reply, Done)
    renamed = change_rules(change_rule(1, name="Other"), full, LATER).reply
    assert isinstance(renamed, Done)
    if state != "draft":
        draft = (*full, rule(201, state="draft"))
        moved = change_rules(change_rule(201, state=state), draft, LATER).reply
        assert isinstance(moved, Problem)


# --- owners ------------------------------------------------------------------------------------------------


def test_the_owner_of_a_programme_journals_rules_and_announces_them() -> None:
    before = governed()
    executed = execute_programme(create_rule(1), before, LATER)
    after = executed.after
    assert after is not None
    assert after.seq == before.seq + 1
    assert after.rules == (executed.rule,)
    assert concerns_hosts(before, after)
    retired = execute_programme(change_rule(1, state="retired"), after, LATER)
    assert retired.after is not None
    assert retired.after.rules == ()
    assert retired.rule is not None
    same = execute_programme(change_rule(1, name="Rule 1"), after, LATER)
    assert same.after is None


def test_a_foreign_tenant_changes_no_rule() -> None:
    foreign = msgspec.structs.replace(create_rule(1), tenant_id=an_id(9))
    assert execute_programme(foreign, governed(), LATER).after is None
    own = msgspec.structs.replace(create_card_rule(1), tenant_id=an_id(9))
    assert not execute(own, context(card()), LATER).journaled


def context(owned: Card) -> CommandContext:
    return CommandContext(owned, account(), programme())


def test_the_owner_of_a_card_applies_rules_to_it() -> None:
    owned = card()
    executed = execute(create_card_rule(1), context(owned), LATER)
    assert executed.journaled
    (made,) = owned.rules
    assert isinstance(made, Rule)
    assert made.scope == "card"
    execute(change_card_rule(1, state="shadow"), context(owned), LATER)
    assert [each.state for each in owned.rules] == ["shadow"]
    refused = execute(change_card_rule(1, state="draft"), context(owned), LATER)
    assert not refused.journaled
    execute(change_card_rule(1, times=3, state="retired"), context(owned), LATER)
    assert owned.rules == ()
