"""Authorization rules: the statements that read them, and their public representation."""

from __future__ import annotations

from typing import Any, Final

import asyncpg
import msgspec

from api.authorization_rules.conditions import ConditionView
from api.http.fields import Id, Instant, shown_instant
from api.http.validation import View
from engine.instant import to_ms
from engine.rules.model import Action, Rule, Scope, State, rule_view

SELECT: Final = """
    SELECT r.id::text, r.programme_id::text, r.state, r.rule, r.created_at, r.updated_at
    FROM authorization_rules r
"""
FIND: Final = SELECT + " WHERE r.id = $1::uuid AND r.tenant_id = $2 AND r.live = $3"
_stored_rule = msgspec.json.Decoder(Rule).decode
_VERSIONED: Final = ("version", "name", "when", "action", "reason")


class ScopeView(View):
    """The programme, card product or card whose purchases a rule decides on."""

    type: Scope
    id: Id


class RuleView(View):
    """An authorization rule in its newest version. The conditions of an `active` rule decide; a rule in
    `shadow` is only evaluated and reported."""

    id: Id
    version: int
    """Rises by 1 with each change of name, conditions, action or reason."""
    name: str
    scope: ScopeView
    when: list[ConditionView]
    action: Action
    reason: str
    state: State
    created_at: Instant
    updated_at: Instant


class VersionView(View):
    """One version of an authorization rule; versions never change."""

    version: int
    name: str
    when: list[ConditionView]
    action: Action
    reason: str
    created_at: Instant


class VersionsView(View):
    """A page, newest first."""

    data: list[VersionView]
    has_more: bool
    next_cursor: int | None


def rule_of(row: asyncpg.Record) -> Rule:
    """The rule of a row of ``SELECT``, with its present state."""
    return msgspec.structs.replace(
        _stored_rule(row["rule"]),
        state=row["state"],
        created_ms=to_ms(row["created_at"]),
        updated_ms=to_ms(row["updated_at"]),
    )


def show(row: asyncpg.Record) -> dict[str, Any]:
    """The public representation of a row of ``SELECT``."""
    return rule_view(rule_of(row))


def show_version(row: asyncpg.Record) -> dict[str, Any]:
    """The public representation of one version."""
    view = rule_view(_stored_rule(row["rule"]))
    return {name: view[name] for name in _VERSIONED} | {"created_at": shown_instant(row["created_at"])}
