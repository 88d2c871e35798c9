"""The report of a rule's matches: versions apart, in shadow and active, within bounds."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

import pytest

from actors.ids import new_id
from api.authorization_rules import report
from api.authorization_rules.report import COUNTED, SAMPLED, report_of
from api.database.pool import connected
from engine.limits import RULE_REPORT_VERSIONS_MAX
from engine.rules.model import Rule
from tests.support.api.authorization_rules import ABOVE_FIFTY, GAMBLING, RULES, rule_of
from tests.support.api.driver import Caller
from tests.support.api.stack import Installation


async def report_for(caller: Caller, rule: Any, begin: int = -1, end: int = 1, status: int = 200) -> Any:
    """The report from ``begin`` to before ``end``, in days from now."""
    now = datetime.now(UTC)
    bounds = ((now + timedelta(days=days)).isoformat(timespec="milliseconds") for days in (begin, end))
    window = urlencode(dict(zip(("from", "to"), bounds, strict=True)))
    return await caller.get(f"{RULES}/{rule['id']}/report?{window}", status)


def figures(shown: Any) -> tuple[Any, ...]:
    names = ("matched", "in_shadow", "approved", "declined", "amount", "approved_amount")
    return tuple(shown[name] for name in names)


async def test_shadow_rule_is_reported_and_changes_nothing(acme: Caller) -> None:
    card = await acme.funded_card("100.00")
    rule = await acme.post(RULES, rule_of("programme", card["programme_id"], state="shadow"))
    first = await acme.spend(card, "30.00", mcc="7995")
    second = await acme.spend(card, "80.00", mcc="7801", merchant_country="GB")
    await acme.spend(card, "1.00", mcc="5411")
    assert (first["decision"], second["decline_reason"]) == ("approved", "insufficient_funds")
    shown = await report_for(acme, rule)
    assert {name: shown[name] for name in ("rule_id", "state", "timezone", "currency", "complete")} == {
        "rule_id": rule["id"],
        "state": "shadow",
        "timezone": "UTC",
        "currency": "EUR",
        "complete": True,
    }
    (version,) = shown["versions"]
    assert version["version"] == 1
    assert figures(version) == (2, 2, 1, 1, "110.00", "30.00")
    assert sum(day["matched"] for day in version["by_day"]) == 2
    assert {row["mcc"]: figures(row) for row in version["by_mcc"]} == {
        "7995": (1, 1, 1, 0, "30.00", "30.00"),
        "7801": (1, 1, 0, 1, "80.00", "0.00"),
    }
    assert {row["country"]: row["matched"] for row in version["by_country"]} == {"IE": 1, "GB": 1}
    assert set(version["sample_transaction_ids"]) == {first["transaction_id"], second["transaction_id"]}


async def test_versions_and_states_of_a_rule_are_reported_apart(acme: Caller) -> None:
    card = await acme.funded_card("100.00")
    rule = await acme.post(RULES, rule_of("card", card["id"], state="shadow"))
    path = f"{RULES}/{rule['id']}"
    await acme.spend(card, "1.00", mcc="7995")
    await acme.patch(path, {"when": [ABOVE_FIFTY]})
    await acme.spend(card, "1.00", mcc="7995")
    await acme.spend(card, "60.00")
    await acme.patch(path, {"when": [GAMBLING]})
    await acme.post(f"{path}/activate", None, 200)
    declined = await acme.spend(card, "2.00", mcc="7995")
    assert declined["decline_detail"] == "no_gambling"
    shown = await report_for(acme, rule)
    assert shown["state"] == "active"
    assert {each["version"]: figures(each) for each in shown["versions"]} == {
        3: (1, 0, 0, 1, "2.00", "0.00"),
        2: (1, 1, 1, 0, "60.00", "60.00"),
        1: (1, 1, 1, 0, "1.00", "1.00"),
    }
    assert shown["versions"][0]["sample_transaction_ids"] == [declined["transaction_id"]]


async def test_rule_without_matches_has_an_empty_report(acme: Caller) -> None:
    card = await acme.funded_card()
    rule = await acme.post(RULES, rule_of("card", card["id"], state="shadow"))
    await acme.spend(card, "1.00", mcc="7995")
    (version,) = (await report_for(acme, rule, -10, -2))["versions"]
    assert figures(version) == (0, 0, 0, 0, "0.00", "0.00")
    lists = ("by_day", "by_mcc", "by_country", "sample_transaction_ids")
    assert [version[name] for name in lists] == [[]] * 4
    (draft,) = (await report_for(acme, await acme.post(RULES, rule_of("card", card["id"]))))["versions"]
    assert draft["matched"] == 0


@pytest.mark.parametrize(
    ("query", "pointers"),
    [
        ("", ["/from", "/to"]),
        ("from=2026-11-01T00:00:00Z", ["/to"]),
        ("from=2026-11-01T00:00:00Z&to=2026-11-01T00:00:00Z", ["/to"]),
        ("from=2026-11-01T00:00:00Z&to=2026-11-01T00:59:59%2B01:00", ["/to"]),
        ("from=2026-08-01T00:00:00Z&to=2026-11-01T00:00:01Z", ["/to"]),
        ("from=2026-11-31T00:00:00Z&to=2026-12-02T00:00:00Z", ["/from"]),
        ("from=2026-11-01&to=2026-11-02T00:00:00Z", ["/from"]),
        ("from=2026-11-01T00:00:00Z&to=2026-11-02T00:00:00Z&state=shadow", ["/state"]),
    ],
)
async def test_window_of_the_report_is_checked(acme: Caller, query: str, pointers: list[str]) -> None:
    problem = await acme.get(f"{RULES}/{new_id()}/report?{query}", 400)
    assert [error["pointer"] for error in problem["errors"]] == pointers


async def test_window_of_92_days_is_accepted(acme: Caller) -> None:
    window = "from=2026-08-01T00:00:00Z&to=2026-11-01T00:00:00Z"
    assert (await acme.get(f"{RULES}/{new_id()}/report?{window}", 404))["status"] == 404


async def test_report_of_others_does_not_exist(running: Installation, acme: Caller, tenant: str) -> None:
    card = await acme.funded_card()
    rule = await acme.post(RULES, rule_of("card", card["id"]))
    for other in (
        await running.caller(f"{tenant}-rival"),
        await running.caller(acme.credentials.name, mode="live"),
    ):
        await report_for(other, rule, status=404)


MANY = 3_000
FILL = """
    INSERT INTO rule_matches (rule_id, decision_id, version, shadow, authorization_id, card_id, day, decided,
        amount_minor, currency, mcc, country, decided_at)
    SELECT $1::uuid, gen_random_uuid(), 1 + n * $2::integer / $3::integer, true, gen_random_uuid(),
        gen_random_uuid(), '2026-11-01', 'approved', 100, 'EUR', lpad((n % 200)::text, 4, '0'), 'IE',
        '2026-11-01T00:00:00Z'::timestamptz + n * interval '1 second'
    FROM generate_series(0, $3 - 1) AS n
"""
BEGIN, END = (datetime(2026, 11, day, tzinfo=UTC) for day in (1, 2))


def stored_rule(version: int) -> Rule:
    scope: Any = {"scope": "card", "scope_id": new_id()}
    return Rule(id=new_id(), version=version, name="Rule", when=(), reason="our_reason", **scope)


async def fill(running: Installation, rule: Rule) -> None:
    """Give ``rule`` as many matches as ``MANY``, spread over its versions."""
    async with connected(running.services.pool) as connection:
        await connection.execute(FILL, rule.id, rule.version, MANY)


async def test_report_names_the_most_frequent_codes_and_the_newest_samples(running: Installation) -> None:
    rule = stored_rule(3)
    await fill(running, rule)
    async with connected(running.services.pool) as connection:
        reports, complete = await report_of(connection, rule, BEGIN, END)
    assert complete
    assert [(each["version"], each["matched"], each["amount"]) for each in reports] == [
        (3, 1_000, "1000.00"),
        (2, 1_000, "1000.00"),
        (1, 1_000, "1000.00"),
    ]
    assert {len(each["by_mcc"]) for each in reports} == {100}
    assert [[row["matched"] for row in each["by_day"]] for each in reports] == [[1_000]] * 3
    samples = [id_ for each in reports for id_ in each["sample_transaction_ids"]]
    assert len(set(samples)) == 300


async def test_older_versions_and_too_many_matches_make_the_report_incomplete(
    running: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    rule = stored_rule(RULE_REPORT_VERSIONS_MAX + 1)
    await fill(running, rule)
    async with connected(running.services.pool) as connection:
        reports, complete = await report_of(connection, rule, BEGIN, END)
        assert not complete
        assert [each["version"] for each in reports] == list(range(RULE_REPORT_VERSIONS_MAX + 1, 1, -1))
        last_hundred = BEGIN + timedelta(seconds=MANY - 100)
        assert (await report_of(connection, rule, last_hundred, END))[1]
        monkeypatch.setattr(report, "RULE_REPORT_MATCHES_MAX", 99)
        assert not (await report_of(connection, rule, last_hundred, END))[1]


async def test_report_reads_one_range_of_the_covering_index(running: Installation) -> None:
    rule = stored_rule(2)
    for each in (rule, *(stored_rule(1) for _ in range(5))):
        await fill(running, each)
    async with connected(running.services.pool) as connection:
        await connection.execute("VACUUM (ANALYZE) rule_matches")
        counted = await connection.fetch("EXPLAIN " + COUNTED, rule.id, BEGIN, END, 0)
        sampled = await connection.fetch("EXPLAIN " + SAMPLED, rule.id, [2], [BEGIN], [END])
    for plan in ("\n".join(row[0] for row in rows) for rows in (counted, sampled)):
        assert re.search("Index Only Scan( Backward)? using rule_matches_reported", plan), plan
        assert "Seq Scan on rule_matches" not in plan, plan
