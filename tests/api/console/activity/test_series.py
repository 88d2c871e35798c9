"""Figures of time ranges: counted from the tables, kept, and the same either way."""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

import pytest

from api.access.tokens import Caller as Session
from api.console.activity.latency import BOUNDS_MS, percentile
from api.console.activity.ranges import DAY_SECONDS, RANGES
from api.console.activity.series import Activity, activity
from engine.ids import first_id_at
from engine.instant import to_datetime
from tests.support.api.driver import Caller
from tests.support.api.stack import Installation

STEPS_MAX = 200

_INSERT = """
    INSERT INTO transactions (
        id, tenant_id, live, card_id, cardholder_id, programme_id, seq, kind, status, currency,
        requested_minor, approved_minor, held_minor, cleared_minor, reversed_minor, decline_reason,
        created_at, updated_at, day, remainder_minor)
    SELECT id, $1, $2, id, id, id, 1, 'purchase', 'pending', $3,
        100, CASE WHEN reason IS NULL THEN 100 ELSE 0 END, 0, 0, 0, reason,
        decided_at, decided_at, '2026-11-21', 0
    FROM unnest($4::uuid[], $5::timestamptz[], $6::text[]) AS given (id, decided_at, reason)
"""


async def session_of(running: Installation, caller: Caller, *, live: bool = False) -> Session:
    """The caller as the console's session sees it."""
    found: Any = await running.services.pool.fetchrow(
        "SELECT id::text, tenant_id::text FROM clients WHERE client_id = $1", caller.credentials.client_id
    )
    return Session(
        id=found["id"],
        tenant_id=found["tenant_id"],
        live=live,
        role="admin",
        scopes=frozenset(),
        expires_ms=0,
    )


async def decide(
    running: Installation,
    session: Session,
    at: Sequence[int],
    reason: str | None = None,
    *,
    currency: str = "EUR",
    latency_ms: int = 7,
) -> None:
    """Rows of decisions on messages that arrived at ``at`` (Unix seconds)."""
    ids = [f"{first_id_at(each * 1000)[:24]}{random.getrandbits(48):012x}" for each in at]
    instants = [to_datetime(each * 1000 + latency_ms) for each in at]
    of_tenant = (session.tenant_id, session.live, currency)
    await running.services.pool.execute(_INSERT, *of_tenant, ids, instants, [reason] * len(at))


async def figures(running: Installation, session: Session, range_: str, zone: str = "UTC") -> Activity:
    services = running.services
    return await activity(services.pool, session, RANGES[range_], services.clock.now_ms(), zone)


async def complete(running: Installation, session: Session, range_: str) -> tuple[Activity, int]:
    """The figures once all slots are counted, and the number of requests that it took."""
    for step in range(1, STEPS_MAX):
        found = await figures(running, session, range_)
        if not found.counting:
            return found, step
    raise AssertionError("the range is never complete")


def now_of(running: Installation) -> int:
    return running.services.clock.now_ms() // 1000


async def test_short_range_counts_approvals_amounts_declines_and_latency(
    running: Installation, acme: Caller
) -> None:
    card = await acme.funded_card()
    for amount in ("10.00", "20.50", "999.00"):
        await acme.spend(card, amount)
    found = await figures(running, await session_of(running, acme), "5m")
    assert found.totals == {"approved": 2, "declined": 1, "stand_in": 0}
    assert found.total_amounts == {"EUR": "30.50"}
    assert found.reasons == [("insufficient_funds", 1)]
    assert sum(filter(None, found.amounts["EUR"])) == pytest.approx(30.5)
    assert (sum(filter(None, found.approved)), sum(filter(None, found.declined))) == (2, 1)
    assert found.overall_p50_ms is not None
    assert (found.complete, found.counting) == (True, False)
    assert len(found.at) == len(found.approved) == len(found.p99_ms) == 60


async def test_long_range_is_counted_in_steps_and_kept(
    running: Installation, acme: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("api.console.activity.kept.CONSOLE_COUNTED_ROWS_MAX", 20)
    session, now = await session_of(running, acme), now_of(running)
    old = [now - day * DAY_SECONDS for day in range(1, 60) for _ in range(3)]
    await decide(running, session, old)
    await decide(running, session, [now - 40 * DAY_SECONDS] * 50, "risk_blocked")
    await decide(running, session, [now - 100 * DAY_SECONDS] * 5)
    found, steps = await complete(running, session, "90d")
    assert found.totals == {"approved": len(old), "declined": 50, "stand_in": 0}
    assert steps > 5, "each request counts about twenty transactions"
    # What is kept is not counted again.
    await running.services.pool.execute("DELETE FROM transactions WHERE tenant_id = $1", session.tenant_id)
    await decide(running, session, [now])
    again, steps = await complete(running, session, "90d")
    assert (again.totals["approved"], again.totals["declined"], steps) == (len(old) + 1, 50, 1)


async def test_kept_figures_equal_counted_ones(running: Installation, acme: Caller) -> None:
    session, now = await session_of(running, acme, live=True), now_of(running)
    chosen = random.Random(7)
    for reason, currency in ((None, "EUR"), (None, "USD"), ("insufficient_funds", "EUR")):
        at = [now - chosen.randrange(3_500) for _ in range(40)]
        await decide(running, session, at, reason, currency=currency, latency_ms=chosen.randrange(1, 900))
    counted = await figures(running, session, "1h")
    kept, _ = await complete(running, session, "6h")
    for name in ("totals", "total_amounts", "reasons", "overall_p50_ms", "overall_p99_ms"):
        assert getattr(kept, name) == getattr(counted, name), name
    assert counted.totals == {"approved": 80, "declined": 40, "stand_in": 0}


async def test_kept_slots_move_on_with_time(
    running: Installation, acme: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    session, now = await session_of(running, acme), now_of(running)
    await decide(running, session, [now - 1_000])
    await complete(running, session, "24h")
    later_ms = (now + 5_000) * 1000
    await decide(running, session, [now + 2_000, now + 4_900])
    monkeypatch.setattr(running.services.clock, "now_ms", lambda: later_ms)
    found, _ = await complete(running, session, "24h")
    assert found.totals["approved"] == 3
    # After more than the longest range without a page, the kept slots begin again.
    monkeypatch.setattr(running.services.clock, "now_ms", lambda: later_ms + 100 * DAY_SECONDS * 1000)
    found, _ = await complete(running, session, "90d")
    assert found.totals["approved"] == 0
    count = "SELECT count(*) FROM console_activity WHERE tenant_id = $1"
    assert await running.services.pool.fetchval(count, session.tenant_id) == 0


async def test_hour_with_too_many_decisions_is_shown_in_kept_slots(
    running: Installation, acme: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    session, now = await session_of(running, acme), now_of(running)
    await decide(running, session, [now - 60 * minute for minute in range(50) for _ in range(4)])
    assert (await figures(running, session, "1h")).slot_seconds == 60
    monkeypatch.setattr("api.console.activity.series.CONSOLE_COUNTED_ROWS_MAX", 80)
    monkeypatch.setattr("api.console.activity.kept.CONSOLE_COUNTED_ROWS_MAX", 80)
    found, _ = await complete(running, session, "1h")
    assert (found.slot_seconds, found.complete, found.totals["approved"]) == (300, True, 200)
    # Five minutes have no longer slots: only the newest decisions are shown.
    await decide(running, session, [now - 200] * 100)
    found = await figures(running, session, "5m")
    assert (found.complete, found.counting) == (False, False)
    assert found.totals["approved"] <= 80
    assert None in found.approved


async def test_figures_are_those_of_one_tenant_and_mode(
    running: Installation, acme: Caller, tenant: str
) -> None:
    session, now = await session_of(running, acme), now_of(running)
    await decide(running, session, [now - 900] * 3)
    other = await session_of(running, await running.caller(f"{tenant}-other"))
    live = await session_of(running, acme, live=True)
    for stranger in (other, live):
        found, _ = await complete(running, stranger, "24h")
        assert found.totals == {"approved": 0, "declined": 0, "stand_in": 0}


async def test_stand_in_decisions_and_live_latencies_are_counted(running: Installation, tenant: str) -> None:
    caller = await running.caller(tenant, mode="live")
    session, now = await session_of(running, caller, live=True), now_of(running)
    await decide(running, session, [now - 900] * 10, latency_ms=12)
    await running.services.pool.execute(
        "INSERT INTO stand_ins (id, tenant_id, live, programme_id, card_id, authorization_id, decided_at,"
        " decision, rule, trigger, amount_minor, currency, mcc, exposure_minor, budget_used_minor,"
        " response_code, stan, rrn) SELECT gen_random_uuid(), $1, true, $2, $2, $2, $3, 'approved',"
        " 'within_ceilings', 'timeout', 1, 'EUR', '5411', 1, 1, '00', '1', '1' FROM generate_series(1, 4)",
        session.tenant_id,
        (await caller.programme())["id"],
        to_datetime((now - 900) * 1000),
    )
    found, _ = await complete(running, session, "24h")
    assert found.totals["stand_in"] == sum(filter(None, found.stand_in_approved)) == 4
    assert found.overall_p50_ms == percentile({bisect_right(BOUNDS_MS, 12): 10}, 0.5)
