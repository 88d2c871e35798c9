"""Stand-in."""

from __future__ import annotations

from stanchion.compat import TypedDict
from stanchion.records.common import Currency, Decision, Money


class Triggers(TypedDict, total=False):
    """The failures of a programme's endpoint that lead to stand-in."""

    connection_error: bool
    timeout: bool
    invalid_response: bool


class StandInPolicy(TypedDict):
    """The ceilings for approvals during an outage of a programme's endpoint."""

    programme_id: str
    mode: str
    triggers: Triggers
    max_amount: str | None
    max_total_exposure: Money | None
    max_count_per_day: int | None
    mcc_list: list[str]
    mcc_list_mode: str
    version: int
    updated_at: str


class OutageBudget(TypedDict):
    """The exposure of approvals in stand-in under one budget."""

    currency: Currency | None
    used: str


class Outage(TypedDict):
    """An outage of a programme's endpoint; ``ended_at`` is ``None`` while it lasts."""

    id: str
    programme_id: str
    started_at: str
    ended_at: str | None
    budgets: list[OutageBudget]


class StandIn(TypedDict):
    """One decision in stand-in; ``*_minor`` are whole minor units, as text."""

    id: str
    programme_id: str
    card_id: str
    authorization_id: str
    outage_id: str | None
    decided_at: str
    decision: Decision
    rule: str
    trigger: str
    amount: str
    currency: Currency
    mcc: str
    exposure_minor: str
    budget_used_minor: str
    budget_limit_minor: str | None
    response_code: str
    stan: str
    rrn: str
