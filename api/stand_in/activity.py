"""The report of stand-in decisions.

The owner of a card writes the row in the commit of the decision, so the report contains every stand-in
decision on a card. The operation's description lists the stand-ins that it does not contain.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Final, Literal

import asyncpg
from fastapi import Query
from pydantic import Field, StringConstraints, model_validator
from starlette.responses import Response

from api.database.pool import connected
from api.http.fields import (
    Currency,
    Id,
    Instant,
    InstantInput,
    ShownAmount,
    example,
    shown_instant,
)
from api.http.problems import Refusal
from api.http.refusals import refusals
from api.http.validation import View
from api.http.windows import require_bounded, window_of
from api.operations.call import PathId, ReadCall
from api.operations.pagination import PageQuery, page_of
from api.operations.route import new_router
from api.programmes.routes import require_programme
from engine.limits import STIP_WINDOW_DAYS_MAX
from engine.money import format_minor
from engine.programmes.stand_in import Rule, Trigger

router = new_router("Stand-in")

MinorText = Annotated[str, StringConstraints(pattern="^(0|[1-9][0-9]*)$"), example("1250")]

_CURSOR: Final = """
    SELECT decided_at FROM stand_ins
    WHERE id = $1::uuid AND programme_id = $2::uuid AND tenant_id = $3 AND live = $4
"""
# Ordered by the time of the decision: ids are assigned on arrival, before the call to the programme.
_PAGE: Final = """
    SELECT id::text, programme_id::text, card_id::text, authorization_id::text, outage_id::text, decided_at,
        decision, rule, trigger, amount_minor, currency, mcc, exposure_minor, budget_used_minor,
        budget_limit_minor, response_code, stan, rrn
    FROM stand_ins
    WHERE programme_id = $1::uuid AND tenant_id = $2 AND live = $3 AND decided_at >= $4 AND decided_at < $5
        AND ($6::timestamptz IS NULL OR (decided_at, id) < ($6, $7::uuid))
    ORDER BY decided_at DESC, id DESC LIMIT $8
"""


class ActivityQuery(PageQuery):
    """The window of the report, half-open: `[from, to)`."""

    from_: Annotated[InstantInput, Field(alias="from")]
    to: InstantInput

    @property
    def window(self) -> tuple[datetime, datetime]:
        """Start (inclusive) and end (exclusive)."""
        return window_of(self.from_, self.to)

    @model_validator(mode="after")
    def _window(self) -> ActivityQuery:
        require_bounded(self.window, STIP_WINDOW_DAYS_MAX)
        return self


class StandInView(View):
    """One decision that was made in stand-in."""

    id: Id
    programme_id: Id
    card_id: Id
    authorization_id: Id
    outage_id: Id | None
    """The outage it belongs to; null if the owner of the budget did not answer."""
    decided_at: Instant
    decision: Literal["approved", "declined"]
    rule: Rule
    """The deciding rule: the first that refused, or `within_ceilings`. `budget_unreachable`: the owner of
    the budget did not answer in time, so the authorization was declined."""
    trigger: Trigger
    """Why the programme gave no usable answer."""
    amount: ShownAmount
    """The requested amount."""
    currency: Currency
    mcc: str
    exposure_minor: MinorText
    """The exposure that this stand-in created, in minor units. Do not parse it as a floating-point number."""
    budget_used_minor: MinorText
    """The used part of the budget after this decision, its own exposure included."""
    budget_limit_minor: MinorText | None
    """The budget at the time of the decision."""
    response_code: str
    stan: str
    rrn: str


class ActivityView(View):
    """A page of the report, newest first."""

    data: list[StandInView]
    has_more: bool
    next_cursor: Id | None
    unattributed_count: int
    """Recorded stand-ins without a programme. At present always 0, so a 0 is no evidence of completeness."""


@router.get(
    "/v1/programs/{id}/stip-activity",
    response_model=ActivityView,
    responses=refusals("not-found", "invalid-cursor"),
)
async def list_stip_activity(
    programme_id: PathId, query: Annotated[ActivityQuery, Query()], call: ReadCall
) -> Response:
    """Report a programme's stand-in decisions, newest first.

    Contains every recorded decision, approvals and declines, of the window `[from, to)` of at most 90 days.
    It does not contain three classes of stand-in:

    * those taken before the card was resolved: the card's owner did not answer, or the deadline had passed
      already;
    * those taken by the network, before the platform decided: they arrive afterwards as advices;
    * those that were decided and never committed, because it was unknown whether the message had been
      answered before.

    An empty window means that no stand-in on a resolved card was recorded, not that none happened.
    """
    caller = call.caller
    await require_programme(call, programme_id)
    begin, end = query.window
    async with connected(call.services.pool) as connection:
        after = None
        if query.starting_after is not None:
            of_caller = (programme_id, caller.tenant_id, caller.live)
            after = await connection.fetchval(_CURSOR, query.starting_after, *of_caller)
            if after is None:
                raise Refusal("invalid-cursor")
        rows = await connection.fetch(
            _PAGE,
            programme_id,
            caller.tenant_id,
            caller.live,
            begin,
            end,
            after,
            query.starting_after,
            query.limit + 1,
        )
    # The column is NOT NULL: every recorded stand-in has a programme.
    return page_of(query, rows, _show, unattributed_count=0)


def _show(row: asyncpg.Record) -> dict[str, Any]:
    limit_minor = row["budget_limit_minor"]
    return {
        "id": row["id"],
        "programme_id": row["programme_id"],
        "card_id": row["card_id"],
        "authorization_id": row["authorization_id"],
        "outage_id": row["outage_id"],
        "decided_at": shown_instant(row["decided_at"]),
        "decision": row["decision"],
        "rule": row["rule"],
        "trigger": row["trigger"],
        "amount": format_minor(row["amount_minor"]),
        "currency": row["currency"],
        "mcc": row["mcc"],
        "exposure_minor": str(row["exposure_minor"]),
        "budget_used_minor": str(row["budget_used_minor"]),
        "budget_limit_minor": None if limit_minor is None else str(limit_minor),
        "response_code": row["response_code"],
        "stan": row["stan"],
        "rrn": row["rrn"],
    }
