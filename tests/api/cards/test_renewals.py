"""The renewal sweeper: cards are replaced 45 days before they expire, once, by one of several API servers."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest
import pytest_asyncio

from actors.settings import Settings
from actors.vault import Vault
from api.services import Services
from api.sweepers.renewals import due_months, sweep
from engine.instant import DAY_MS
from engine.limits import RENEWAL_LEASE_SECONDS
from ops.embedded.ports import free_port
from tests.conftest import PostgresServer
from tests.support.api.driver import Caller
from tests.support.api.stack import Installation, installation


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def running(
    postgres_server: PostgresServer, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Installation]:
    """An installation of its own: a sweep renews the cards of all tenants."""
    name = "stanchion_test_renewals"
    postgres_server.create(name)
    settings = Settings.load(
        var_dir=tmp_path_factory.mktemp("renewals"),
        database_url=postgres_server.database(name),
        iso8583_port=free_port(),
        auto_clear_seconds=0,
    )
    async with installation(settings, Vault.from_settings(settings)) as started:
        yield started
    postgres_server.drop(name)


class At:
    """A clock at a fixed instant."""

    def __init__(self, ms: int) -> None:
        self.ms = ms

    def now_ms(self) -> int:
        return self.ms

    def monotonic(self) -> float:
        return self.ms / 1000


def ms(text: str) -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


def end_of(card: Any) -> int:
    """The end of a card's last month."""
    year, month = card["exp_year"], card["exp_month"]
    return ms(f"{year + month // 12}-{month % 12 + 1:02d}-01")


def before_expiry(running: Installation, card: Any, days: float) -> Services:
    """The services of a server whose clock shows ``days`` before the card's expiry."""
    return dataclasses.replace(running.services, clock=At(end_of(card) - round(days * DAY_MS)))


async def issued(caller: Caller, *, renewal: str | None = None, form_factor: str = "virtual") -> Any:
    programme = await caller.programme(**({} if renewal is None else {"card_renewal": renewal}))
    product = await caller.product(programme, form_factor=form_factor)
    return await caller.card(product, await caller.cardholder(programme), activate=True)


async def shown(caller: Caller, card: Any) -> Any:
    return await caller.get(f"/v1/cards/{card['id']}")


@pytest.mark.parametrize(
    ("now", "months"),
    [
        ("2026-11-16T23:59:59", (2026, 11, 2026, 11)),
        ("2026-11-17T00:00:00", (2026, 11, 2026, 12)),
        ("2026-12-17T23:59:59", (2026, 12, 2026, 12)),
        ("2026-12-18T00:00:00", (2026, 12, 2027, 1)),
        ("2027-01-15T12:00:00", (2027, 1, 2027, 2)),
        ("2027-03-01T00:00:00", (2027, 3, 2027, 3)),
    ],
)
def test_due_months(now: str, months: tuple[int, ...]) -> None:
    assert due_months(ms(now)) == months


async def test_card_is_renewed_45_days_before_it_expires(running: Installation, acme: Caller) -> None:
    card = await issued(acme)
    records = {"external_ref": "card-7", "metadata": {"team": "north"}}
    await acme.patch(f"/v1/cards/{card['id']}", records)
    assert await sweep(before_expiry(running, card, 45.001)) == 0
    assert (await shown(acme, card))["replaced_by"] is None
    later = before_expiry(running, card, 45)
    while await sweep(later):
        pass
    old = await shown(acme, card)
    assert (old["state"], old["state_reason"]) == ("terminated", "expired")
    new = await shown(acme, {"id": old["replaced_by"]})
    assert (new["state"], new["replaces"]) == ("active", card["id"])
    assert {name: new[name] for name in records} == records
    assert (new["exp_year"], new["exp_month"]) > (card["exp_year"], card["exp_month"])
    event = (await acme.get("/v1/events?types=card.replaced&limit=1"))["data"][0]["data"]
    assert (event["card_id"], event["reason"]) == (card["id"], "expired")


async def test_several_servers_renew_a_card_once(running: Installation, acme: Caller) -> None:
    card = await issued(acme)
    servers = [before_expiry(running, card, 10) for _ in range(4)]
    await asyncio.gather(*(sweep(server) for server in servers))
    listed = (await acme.get(f"/v1/cards?cardholder_id={card['cardholder_id']}"))["data"]
    assert len(listed) == 2
    assert {each["replaces"] for each in listed} == {None, card["id"]}
    unused = "SELECT count(*) FROM pans p WHERE NOT EXISTS (SELECT FROM cards WHERE id = p.card_id)"
    assert await running.services.pool.fetchval(unused) == 0
    leases = "SELECT count(*) FROM card_renewals WHERE card_id = $1"
    assert await running.services.pool.fetchval(leases, card["id"]) == 0


@pytest.mark.parametrize(
    ("renewal", "form_factor", "renewed"),
    [
        (None, "virtual", True),
        (None, "physical", False),
        ("all", "physical", True),
        ("off", "virtual", False),
    ],
)
async def test_setting_of_the_programme_decides(
    running: Installation, acme: Caller, renewal: str | None, form_factor: str, renewed: bool
) -> None:
    card = await issued(acme, renewal=renewal, form_factor=form_factor)
    await sweep(before_expiry(running, card, 40))
    old = await shown(acme, card)
    assert (old["replaced_by"] is not None) == renewed
    if renewed:
        state = "active" if form_factor == "virtual" else "unactivated"
        assert (await shown(acme, {"id": old["replaced_by"]}))["state"] == state


async def test_renewal_can_be_switched_off_later(running: Installation, acme: Caller) -> None:
    card = await issued(acme)
    path = f"/v1/programs/{card['programme_id']}"
    assert (await acme.get(path))["card_renewal"] == "virtual"
    changed = await acme.patch(path, {"card_renewal": "off"})
    assert (changed["card_renewal"], changed["version"]) == ("off", 2)
    await sweep(before_expiry(running, card, 40))
    assert (await shown(acme, card))["replaced_by"] is None
    await acme.patch(path, {"card_renewal": "everything"}, 400)


@pytest.mark.parametrize("obstacle", ["suspended", "blocked", "programme", "retired", "expired"])
async def test_unusable_cards_are_not_renewed(running: Installation, acme: Caller, obstacle: str) -> None:
    card = await issued(acme)
    server = before_expiry(running, card, -1 if obstacle == "expired" else 40)
    if obstacle == "suspended":
        await acme.patch(f"/v1/cards/{card['id']}", {"state": "suspended"})
    elif obstacle == "blocked":
        await acme.patch(f"/v1/cardholders/{card['cardholder_id']}", {"status": "blocked"})
    elif obstacle == "programme":
        await acme.patch(f"/v1/programs/{card['programme_id']}", {"status": "suspended"})
    elif obstacle == "retired":
        await acme.post(f"/v1/card-products/{card['card_product_id']}/retire", status=200)
    await sweep(server)
    assert (await shown(acme, card))["replaced_by"] is None


async def test_failed_renewal_is_tried_again_after_its_lease(running: Installation, acme: Caller) -> None:
    card = await issued(acme)
    server = before_expiry(running, card, 40)
    lease = "INSERT INTO card_renewals VALUES ($1, to_timestamp($2::bigint / 1000.0))"
    until = server.clock.now_ms() + RENEWAL_LEASE_SECONDS * 1000
    await running.services.pool.execute(lease, card["id"], until)
    await sweep(server)
    assert (await shown(acme, card))["replaced_by"] is None
    await sweep(dataclasses.replace(server, clock=At(until)))
    assert (await shown(acme, card))["replaced_by"] is not None
