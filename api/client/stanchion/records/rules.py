"""Authorization rules and their reports."""

from __future__ import annotations

from typing import Literal

from stanchion.compat import Required, TypedDict

RuleAction = Literal["decline", "require_authentication"]
RuleState = Literal["draft", "shadow", "active", "retired"]


class RuleScope(TypedDict):
    """The programme, card product or card whose purchases a rule decides on."""

    type: Literal["programme", "card_product", "card"]
    id: str


class RuleCondition(TypedDict, total=False):
    """``attribute op value``. ``measure``, ``window``, ``where`` and ``of`` belong to the attribute
    ``velocity``."""

    attribute: Required[str]
    measure: Literal["count", "amount", "declines", "distinct_merchants", "distinct_countries"]
    window: str
    where: list[RuleCondition]
    of: Literal["card", "account"]
    op: Required[str]
    value: Required[bool | int | str | list[int] | list[str]]


class RuleVersion(TypedDict):
    """One version of an authorization rule."""

    version: int
    name: str
    when: list[RuleCondition]
    action: RuleAction
    reason: str
    created_at: str


class AuthorizationRule(RuleVersion):
    """An authorization rule in its newest version."""

    id: str
    scope: RuleScope
    state: RuleState
    updated_at: str


class RuleFigures(TypedDict):
    """Numbers of authorizations that a rule matched."""

    matched: int
    in_shadow: int
    approved: int
    declined: int
    amount: str
    approved_amount: str


class RuleFiguresOfDay(RuleFigures):
    """The matches of one day."""

    day: str


class RuleFiguresOfMcc(RuleFigures):
    """The matches of one merchant category code."""

    mcc: str


class RuleFiguresOfCountry(RuleFigures):
    """The matches of one country of merchants."""

    country: str


class RuleFiguresOfVersion(RuleFigures):
    """The matches of one version of a rule."""

    version: int
    by_day: list[RuleFiguresOfDay]
    by_mcc: list[RuleFiguresOfMcc]
    by_country: list[RuleFiguresOfCountry]
    sample_transaction_ids: list[str]


# With the functional form, because ``from`` is a keyword.
RuleReport = TypedDict(
    "RuleReport",
    {
        "rule_id": str,
        "state": RuleState,
        "from": str,
        "to": str,
        "timezone": str,
        "currency": str,
        "as_of": str,
        "complete": bool,
        "versions": list[RuleFiguresOfVersion],
    },
)
