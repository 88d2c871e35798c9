"""The report of an authorization rule: its matches in a window, for each version.

The owner of a card writes a row of ``rule_matches`` in the commit of each decision that a rule declined, or
that a rule in shadow would have declined. A report reads at most ``RULE_REPORT_MATCHES_MAX`` of them, from
one range of a covering index.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Annotated, Any, Final

import asyncpg
import msgspec
from fastapi import Query
from pydantic import Field, model_validator
from starlette.responses import Response

from api.authorization_rules.routes import rule_row
from api.authorization_rules.views import rule_of
from api.database.pool import Connection, connected
from api.http.answers import json_response
from api.http.fields import (
    Currency,
    Day,
    Id,
    Instant,
    InstantInput,
    ShownAmount,
    shown_instant,
)
from api.http.refusals import refusals
from api.http.validation import Input, View
from api.http.windows import require_bounded, window_of
from api.operations.call import PathId, ReadCall
from api.operations.route import new_router
from api.programmes.routes import require_programme
from engine.limits import (
    RULE_REPORT_CODES_MAX,
    RULE_REPORT_DAYS_MAX,
    RULE_REPORT_MATCHES_MAX,
    RULE_REPORT_SAMPLES_MAX,
    RULE_REPORT_VERSIONS_MAX,
)
from engine.money import format_minor
from engine.rules.model import Rule, State

router = new_router("Authorization rules")

# Older versions than the newest ones are counted as one, the version $4. The limit bounds the reading.
_MATCHES: Final = f"""
    SELECT greatest(r.version, $4::integer) AS version, r.shadow, r.day, r.decided, r.amount_minor, r.mcc,
        r.country, r.decided_at
    FROM rule_matches r WHERE r.rule_id = $1::uuid AND r.decided_at >= $2 AND r.decided_at < $3
    ORDER BY r.decided_at DESC LIMIT {RULE_REPORT_MATCHES_MAX + 1}
"""
COUNTED: Final = f"""
    SELECT version, day, mcc, country, grouping(day, mcc, country) AS grouped, count(*) AS matched,
        count(*) FILTER (WHERE shadow) AS in_shadow, count(*) FILTER (WHERE decided = 'approved') AS approved,
        sum(amount_minor)::bigint AS amount_minor,
        coalesce(sum(amount_minor) FILTER (WHERE decided = 'approved'), 0)::bigint AS approved_minor,
        min(decided_at) AS first_at, max(decided_at) AS last_at
    FROM ({_MATCHES}) matches
    GROUP BY GROUPING SETS ((version), (version, day), (version, mcc), (version, country))
"""
"""Counts of a rule $1 from instant $2 to before $3, for each version above $4."""
SAMPLED: Final = f"""
    SELECT given.version, m.authorization_id::text
    FROM unnest($2::integer[], $3::timestamptz[], $4::timestamptz[]) AS given (version, first_at, last_at)
    CROSS JOIN LATERAL (
        SELECT r.authorization_id, r.decided_at FROM rule_matches r
        WHERE r.rule_id = $1::uuid AND r.version = given.version AND r.decided_at >= given.first_at
            AND r.decided_at <= given.last_at
        ORDER BY r.decided_at DESC LIMIT {RULE_REPORT_SAMPLES_MAX}) m
    ORDER BY given.version, m.decided_at DESC
"""
"""The newest matches of a rule $1 in the versions $2, whose matches lie between the instants $3 and $4."""

# The values of grouping(day, mcc, country): a bit is set for each column that a row does not tell apart.
_TOTAL: Final = 0b111
_GROUPS: Final = {"day": 0b011, "mcc": 0b101, "country": 0b110}


class RuleReportQuery(Input):
    """The window of the report, half-open: `[from, to)`."""

    from_: Annotated[InstantInput, Field(alias="from")]
    to: InstantInput

    @property
    def window(self) -> tuple[datetime, datetime]:
        """Start (inclusive) and end (exclusive)."""
        return window_of(self.from_, self.to)

    @model_validator(mode="after")
    def _bounded(self) -> RuleReportQuery:
        require_bounded(self.window, RULE_REPORT_DAYS_MAX)
        return self


class Figures(msgspec.Struct, frozen=True):
    """Numbers of matches. Amounts in minor units."""

    matched: int = 0
    in_shadow: int = 0
    approved: int = 0
    amount_minor: int = 0
    approved_minor: int = 0

    def view(self) -> dict[str, Any]:
        """The public representation."""
        return {
            "matched": self.matched,
            "in_shadow": self.in_shadow,
            "approved": self.approved,
            "declined": self.matched - self.approved,
            "amount": format_minor(self.amount_minor),
            "approved_amount": format_minor(self.approved_minor),
        }


class FiguresView(View):
    """Numbers of authorizations that a rule matched."""

    matched: int
    """Authorizations and increments."""
    in_shadow: int
    """Those that matched while the rule was in shadow."""
    approved: int
    """Those that were approved. Activated, a shadow rule would have declined them."""
    declined: int
    """Those that were declined, by this rule or for another reason."""
    amount: ShownAmount
    """The sum of the requested amounts."""
    approved_amount: ShownAmount
    """The sum of the requested amounts of those that were approved."""


class DayFiguresView(FiguresView):
    """The matches of one day in the programme's time zone."""

    day: Day


class MccFiguresView(FiguresView):
    """The matches of one merchant category code."""

    mcc: str


class CountryFiguresView(FiguresView):
    """The matches of one country of merchants."""

    country: str


class VersionFiguresView(FiguresView):
    """The matches of one version of a rule."""

    version: int
    by_day: list[DayFiguresView]
    """In order of time, days without a match left out."""
    by_mcc: list[MccFiguresView]
    """The 100 category codes with the most matches."""
    by_country: list[CountryFiguresView]
    """The 100 countries with the most matches."""
    sample_transaction_ids: list[Id]
    """Transactions of the newest 100 matches, the newest first."""


class RuleReportView(View):
    """The matches of an authorization rule in a window."""

    rule_id: Id
    state: State
    from_: Annotated[Instant, Field(alias="from")]
    to: Instant
    timezone: str
    currency: Currency
    as_of: Instant
    complete: bool
    """False if the report leaves out older matches, because the window has more than 200,000 matches, or
    those of more than 20 versions: choose a shorter window."""
    versions: list[VersionFiguresView]
    """Newest first: the newest version, and the others that matched in the window."""


@router.get(
    "/v1/authorization-rules/{id}/report", response_model=RuleReportView, responses=refusals("not-found")
)
async def get_authorization_rule_report(
    rule_id: PathId, query: Annotated[RuleReportQuery, Query()], call: ReadCall
) -> Response:
    """Report the authorizations that a rule matched, in shadow and while it was active, for each version.

    The window `[from, to)` has at most 92 days. The matches of an active rule are the authorizations that it
    declined. Matches are deleted after 400 days.
    """
    row = await rule_row(call, rule_id)
    programme = await require_programme(call, row["programme_id"])
    begin, end = query.window
    async with (
        connected(call.services.pool) as connection,
        connection.transaction(isolation="repeatable_read", readonly=True),
    ):
        versions, complete = await report_of(connection, rule_of(row), begin, end)
        as_of = await connection.fetchval("SELECT now()")
    return json_response(
        200,
        {
            "rule_id": rule_id,
            "state": row["state"],
            "from": shown_instant(begin),
            "to": shown_instant(end),
            "timezone": programme.timezone,
            "currency": programme.currency,
            "as_of": shown_instant(as_of),
            "complete": complete,
            "versions": versions,
        },
    )


async def report_of(
    connection: Connection, rule: Rule, begin: datetime, end: datetime
) -> tuple[list[dict[str, Any]], bool]:
    """The report of each version of ``rule``, newest first, and whether it is complete. ``connection`` is in
    a repeatable-read transaction, so that both statements see one snapshot."""
    older = max(0, rule.version - RULE_REPORT_VERSIONS_MAX)
    counted = await connection.fetch(COUNTED, rule.id, begin, end, older)
    totals = {row["version"]: row for row in counted if row["grouped"] == _TOTAL}
    read, outdated = sum(row["matched"] for row in totals.values()), totals.pop(older, None)
    sampled = await connection.fetch(
        SAMPLED,
        rule.id,
        list(totals),
        [row["first_at"] for row in totals.values()],
        [row["last_at"] for row in totals.values()],
    )
    reports = [
        _version_report(
            version,
            [row for row in counted if row["version"] == version],
            [row["authorization_id"] for row in sampled if row["version"] == version],
        )
        for version in sorted({rule.version, *totals}, reverse=True)
    ]
    return reports, read <= RULE_REPORT_MATCHES_MAX and outdated is None


def _version_report(
    version: int, counted: Iterable[asyncpg.Record], transaction_ids: list[str]
) -> dict[str, Any]:
    total = Figures()
    groups: dict[str, dict[str, Figures]] = {name: {} for name in _GROUPS}
    for row in counted:
        figures = Figures(*(row[name] for name in Figures.__struct_fields__))
        if row["grouped"] == _TOTAL:
            total = figures
        for name, grouped in _GROUPS.items():
            if row["grouped"] == grouped:
                groups[name][row[name]] = figures
    return {
        "version": version,
        **total.view(),
        "by_day": [{"day": day} | figures.view() for day, figures in sorted(groups["day"].items())],
        **{f"by_{name}": _most_matched(name, groups[name]) for name in ("mcc", "country")},
        "sample_transaction_ids": transaction_ids,
    }


def _most_matched(name: str, figures: dict[str, Figures]) -> list[dict[str, Any]]:
    """The groups with the most matches, the most first."""
    ordered = sorted(figures.items(), key=lambda each: (-each[1].matched, each[0]))
    return [{name: key} | each.view() for key, each in ordered[:RULE_REPORT_CODES_MAX]]
