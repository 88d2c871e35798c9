"""The report of an authorization rule: its matches in a window of days, for each version.

The owner of a card writes a row of ``rule_matches`` in the commit of each decision that a rule in shadow or an
active rule matched. A report reads index ranges only, and at most ``RULE_REPORT_MATCHES_MAX`` rows of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date, timedelta
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
from api.http.fields import Currency, Day, Id, Instant, ShownAmount, example, shown_instant
from api.http.refusals import refusals
from api.http.validation import Input, View, broken
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

MATCHED: Final = f"""
    SELECT v.version FROM authorization_rule_versions v
    WHERE v.rule_id = $1::uuid AND EXISTS (
        SELECT FROM rule_matches r
        WHERE r.rule_id = v.rule_id AND r.version = v.version AND r.day >= $2 AND r.day < $3)
    ORDER BY v.version DESC LIMIT {RULE_REPORT_VERSIONS_MAX + 1}
"""
"""The versions of a rule $1 that matched from day $2 to before day $3."""
# One range of the primary key for each version; the limit ends the reading wherever it is.
_MATCHES: Final = f"""
    SELECT m.* FROM unnest($2::integer[]) WITH ORDINALITY AS given (version, place)
    CROSS JOIN LATERAL (
        SELECT r.version, r.day, r.decided, r.amount_minor, r.mcc, r.country FROM rule_matches r
        WHERE r.rule_id = $1::uuid AND r.version = given.version AND r.day >= $3 AND r.day < $4
        ORDER BY r.day DESC) m
    LIMIT {RULE_REPORT_MATCHES_MAX + 1}
"""
COUNTED: Final = f"""
    SELECT version, day::text, mcc, country, grouping(day, mcc, country) AS grouped, count(*) AS matched,
        count(*) FILTER (WHERE decided = 'approved') AS approved,
        sum(amount_minor)::bigint AS amount_minor,
        coalesce(sum(amount_minor) FILTER (WHERE decided = 'approved'), 0)::bigint AS approved_minor
    FROM ({_MATCHES}) matches
    GROUP BY GROUPING SETS ((version), (version, day), (version, mcc), (version, country))
"""
"""Counts of a rule $1 in its versions $2, from day $3 to before day $4."""
SAMPLED: Final = f"""
    SELECT given.version, m.authorization_id::text FROM unnest($2::integer[]) AS given (version)
    CROSS JOIN LATERAL (
        SELECT r.authorization_id FROM rule_matches r
        WHERE r.rule_id = $1::uuid AND r.version = given.version AND r.day >= $3 AND r.day < $4
        ORDER BY r.day DESC, r.authorization_id DESC LIMIT {RULE_REPORT_SAMPLES_MAX}) m
"""
"""The newest transactions of each version, with the parameters of ``COUNTED``."""

# The values of grouping(day, mcc, country): a bit is set for each column that a row does not tell apart.
_TOTAL: Final = 0b111
_GROUPS: Final = {"day": 0b011, "mcc": 0b101, "country": 0b110}


class RuleReportQuery(Input):
    """The window of the report, half-open: `[from, to)`."""

    from_: Annotated[Day, Field(alias="from"), example("2026-11-01")]
    """The first day, in the programme's time zone."""
    to: Annotated[Day, example("2026-12-01")]
    """The day after the last one; at most 92 days after `from`."""

    @property
    def window(self) -> tuple[date, date]:
        """The first day and the day after the last one."""
        return date.fromisoformat(self.from_), date.fromisoformat(self.to)

    @model_validator(mode="after")
    def _bounded(self) -> RuleReportQuery:
        begin, end = self.window
        if begin >= end:
            raise broken("range", "The window must end after it begins.", at="/to")
        if end - begin > timedelta(days=RULE_REPORT_DAYS_MAX):
            raise broken("range", f"The window may hold at most {RULE_REPORT_DAYS_MAX} days.", at="/to")
        return self


class Figures(msgspec.Struct, frozen=True):
    """Numbers of matches. Amounts in minor units."""

    matched: int = 0
    approved: int = 0
    amount_minor: int = 0
    approved_minor: int = 0

    def view(self) -> dict[str, Any]:
        """The public representation."""
        return {
            "matched": self.matched,
            "approved": self.approved,
            "declined": self.matched - self.approved,
            "amount": format_minor(self.amount_minor),
            "approved_amount": format_minor(self.approved_minor),
        }


class FiguresView(View):
    """Numbers of authorizations that a rule matched."""

    matched: int
    approved: int
    """Matched authorizations that were approved. A shadow rule, activated, would have declined them."""
    declined: int
    """Matched authorizations that were declined, by this rule or for another reason."""
    amount: ShownAmount
    """The sum of the requested amounts."""
    approved_amount: ShownAmount
    """The sum of the requested amounts of those that were approved."""


class DayFiguresView(FiguresView):
    """The matches of one day."""

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
    """The newest 100 transactions that matched."""


class RuleReportView(View):
    """The matches of an authorization rule in a window of days."""

    rule_id: Id
    state: State
    from_: Annotated[Day, Field(alias="from")]
    to: Day
    timezone: str
    currency: Currency
    as_of: Instant
    complete: bool
    """False if the report leaves out older matches, because the window has more than 500,000 matches, or those
    of more than 20 versions: choose a shorter window."""
    versions: list[VersionFiguresView]
    """Newest first: the newest version, and the others that matched in the window."""


@router.get(
    "/v1/authorization-rules/{id}/report", response_model=RuleReportView, responses=refusals("not-found")
)
async def get_authorization_rule_report(
    rule_id: PathId, query: Annotated[RuleReportQuery, Query()], call: ReadCall
) -> Response:
    """Report the authorizations that a rule matched, in shadow and while it was active, for each version.

    `from` and `to` are days in the programme's time zone: at most 92, without the day `to` itself. A rule in
    shadow is evaluated for every authorization whose card, currency and controls pass; an active rule for
    those that no earlier rule declined.
    """
    row = await rule_row(call, rule_id)
    programme = await require_programme(call, row["programme_id"])
    async with (
        connected(call.services.pool) as connection,
        connection.transaction(isolation="repeatable_read", readonly=True),
    ):
        versions, complete = await report_of(connection, rule_of(row), query.window)
        as_of = await connection.fetchval("SELECT now()")
    return json_response(
        200,
        {
            "rule_id": rule_id,
            "state": row["state"],
            "from": query.from_,
            "to": query.to,
            "timezone": programme.timezone,
            "currency": programme.currency,
            "as_of": shown_instant(as_of),
            "complete": complete,
            "versions": versions,
        },
    )


async def report_of(
    connection: Connection, rule: Rule, window: tuple[date, date]
) -> tuple[list[dict[str, Any]], bool]:
    """The report of each version of ``rule``, newest first, and whether it is complete. ``connection`` is in a
    repeatable-read transaction, so that all statements see one snapshot."""
    matched = [row["version"] for row in await connection.fetch(MATCHED, rule.id, *window)]
    versions = sorted({rule.version, *matched[:RULE_REPORT_VERSIONS_MAX]}, reverse=True)
    counted = await connection.fetch(COUNTED, rule.id, versions, *window)
    sampled = await connection.fetch(SAMPLED, rule.id, versions, *window)
    read = sum(row["matched"] for row in counted if row["grouped"] == _TOTAL)
    reports = [
        _version_report(
            version,
            [row for row in counted if row["version"] == version],
            [row["authorization_id"] for row in sampled if row["version"] == version],
        )
        for version in versions
    ]
    return reports, read <= RULE_REPORT_MATCHES_MAX and len(matched) <= RULE_REPORT_VERSIONS_MAX


def _version_report(
    version: int, counted: Iterable[asyncpg.Record], transaction_ids: list[str]
) -> dict[str, Any]:
    total = Figures()
    groups: dict[str, dict[str, Figures]] = {name: {} for name in _GROUPS}
    for row in counted:
        figures = Figures(row["matched"], row["approved"], row["amount_minor"], row["approved_minor"])
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
