"""Authorization rules for tests of the API."""

from __future__ import annotations

from typing import Any

RULES = "/v1/authorization-rules"
GAMBLING = {"attribute": "mcc", "op": "in", "value": ["7995", "7800-7802"]}
ABOVE_FIFTY = {"attribute": "amount", "op": "gt", "value": "50.00"}


def rule_of(type_: str, id_: str, **members: Any) -> dict[str, Any]:
    """The body of a rule against gambling."""
    body = {
        "name": "No gambling",
        "scope": {"type": type_, "id": id_},
        "when": [GAMBLING],
        "reason": "no_gambling",
    }
    return body | members
