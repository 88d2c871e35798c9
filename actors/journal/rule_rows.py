"""The rows of authorization rules, which owners of programmes and of cards write."""

from __future__ import annotations

import msgspec

from actors.journal.rows import RuleRow
from engine.rules.model import Rule

_encode = msgspec.json.Encoder().encode


def rule_row(rule: Rule, tenant_id: str, live: bool, programme_id: str) -> RuleRow:
    """The row of a rule after a change."""
    return RuleRow(
        rule.id,
        tenant_id,
        live,
        programme_id,
        rule.scope,
        rule.scope_id,
        rule.name,
        rule.state,
        rule.version,
        _encode(rule).decode(),
        rule.created_ms,
        rule.updated_ms,
    )
