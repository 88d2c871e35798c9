"""Dry runs and headroom."""

from __future__ import annotations

from typing import Literal

from stanchion.compat import TypedDict
from stanchion.records.common import Money
from stanchion.records.transactions import Risk, RuleResult


class AsOf(TypedDict):
    """The state that a dry run read: the last command on the card, the version of its programme, the time."""

    card_seq: int
    programme_version: int
    at: str


class DryRun(TypedDict):
    """A decision as it would be made. ``delegated``: the programme's endpoint, which was not called, would
    decide."""

    card_id: str
    decision: Literal["approved", "declined", "delegated"]
    decided_by: str
    decline_reason: str | None
    decline_detail: str | None
    approved_amount: Money | None
    response_code: str | None
    risk: Risk
    trace: list[RuleResult]
    as_of: AsOf


class Binding(TypedDict):
    """The rule that declines one minor unit more than the headroom."""

    rule: str
    decline_reason: str
    decline_detail: str | None
    unit: Literal["amount", "count"] | None
    limit: str | None
    used: str | None


class Limit(TypedDict):
    """A limit on purchases: an amount, or a number of purchases (``count``)."""

    rule: str
    unit: Literal["amount", "count"]
    limit: str
    used: str
    remaining: str
    resets_at: str | None


class Headroom(TypedDict):
    """The largest purchase that the platform approves now."""

    card_id: str
    max_amount: str
    currency: str
    decided_by: Literal["platform", "programme"]
    decline_reason: str | None
    binding: Binding | None
    limits: list[Limit]
    as_of: AsOf
