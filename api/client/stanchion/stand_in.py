"""Stand-in policies and what was decided under them (spec 2.10, 4.11; contract, section 8)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, TypedDict, Unpack

from stanchion.records import Money
from stanchion.resources import Resource


class Triggers(TypedDict, total=False):
    """Which failures of the decision endpoint are stood in for."""

    connection_error: bool
    timeout: bool
    invalid_response: bool


class PolicyFields(TypedDict, total=False):
    """A whole policy: what is left out has its default afterwards."""

    mode: Literal["disabled", "decline_all", "approve_within_limits"]
    triggers: Triggers
    max_amount: str | None
    max_total_exposure: Money | None
    max_count_per_day: int | None
    mcc_list: list[str]
    mcc_list_mode: Literal["allow", "deny"]


class Policy(TypedDict):
    """A programme's stand-in policy."""

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


class StandInDecision(TypedDict):
    """One decision in a programme's place. ``exposure_minor`` is an integer in text."""

    id: str
    programme_id: str
    card_id: str
    authorization_id: str
    outage_id: str | None
    decided_at: str
    decision: Literal["approved", "declined"]
    rule: str
    trigger: str
    amount: str
    currency: str
    mcc: str
    exposure_minor: str
    budget_used_minor: str
    budget_limit_minor: str | None
    response_code: str
    stan: str
    rrn: str


class StandIn(Resource):
    """Deciding for programmes whose own endpoint fails."""

    def policy(self, programme_id: str) -> Policy:
        policy: Policy = self._get(f"/v1/programs/{programme_id}/stip-policy")
        return policy

    def set_policy(
        self, programme_id: str, *, idempotency_key: str | None = None, **fields: Unpack[PolicyFields]
    ) -> Policy:
        """Replace the whole policy."""
        policy: Policy = self._transport.request(
            "PUT",
            f"/v1/programs/{programme_id}/stip-policy",
            body=fields,
            idempotency_key=idempotency_key,
        )
        return policy

    def activity(self, programme_id: str, from_: str, to: str) -> Iterator[StandInDecision]:
        """Every decision in a half-open window of at most 90 days."""
        return self._walk(f"/v1/programs/{programme_id}/stip-activity", {"from": from_, "to": to})
