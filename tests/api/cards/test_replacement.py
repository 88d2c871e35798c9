"""``POST /v1/cards/{id}/replace``: a new card on the same account, with the same limits of the day."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from actors.network.card_secrets import CardSecrets
from api.cards.replace import find_replaceable, prepare
from api.sweepers.cardholders import sweep
from engine.replies import Done
from tests.support.api.driver import Caller
from tests.support.api.stack import Installation
from tests.support.integration.acquirer import Acquirer, follow_up, purchase

LIMIT = {"kind": "per_day_amount_cap", "amount": "50.00"}


async def plastic(running: Installation, card: Any) -> dict[str, str]:
    """The data that a terminal reads from a card."""
    sealed = await running.services.pool.fetchval("SELECT sealed FROM pans WHERE card_id = $1", card["id"])
    custody = CardSecrets(running.services.vault)
    return {
        "pan": "".join(custody.open(card["id"], sealed)),
        "expiry": f"{card['exp_year'] % 100:02d}{card['exp_month']:02d}",
    }


async def replace(caller: Caller, card: Any, reason: str = "lost", status: int = 201, **fields: Any) -> Any:
    return await caller.post(f"/v1/cards/{card['id']}/replace", {"reason": reason} | fields, status)


@pytest.mark.parametrize(
    ("reason", "state"),
    [("lost", "lost"), ("stolen", "stolen"), ("damaged", "terminated"), ("expired", "terminated")],
)
async def test_replacement_continues_account_controls_and_holder(
    acme: Caller, reason: str, state: str
) -> None:
    records = {"external_ref": "card-7", "metadata": {"team": "north"}}
    card = await acme.funded_card(controls=[LIMIT])
    card = await acme.patch(f"/v1/cards/{card['id']}", records)
    new = await replace(acme, card, reason)
    old = await acme.get(f"/v1/cards/{card['id']}")
    assert (old["state"], old["replaced_by"], old["replaces"]) == (state, new["id"], None)
    assert (new["state"], new["replaces"], new["replaced_by"]) == ("active", card["id"], None)
    kept = ["programme_id", "card_product_id", "cardholder_id", "funding_account_id", "controls", "currency"]
    kept += ["network", "iin", "cardholder_name", "cardholder_email", *records]
    assert {name: new[name] for name in kept} == {name: card[name] for name in kept}
    assert new["pan_ref"] != card["pan_ref"]
    assert new["cvk_generation"] != card["cvk_generation"]
    assert new == await acme.get(f"/v1/cards/{new['id']}")
    balances = [await acme.get(f"/v1/cards/{each['id']}/balance") for each in (card, new)]
    assert [each["available"] for each in balances] == ["100.00", "100.00"]


async def test_limit_of_the_day_is_not_spent_twice(acme: Caller) -> None:
    card = await acme.funded_card(controls=[LIMIT])
    assert (await acme.spend(card, "40.00"))["decision"] == "approved"
    new = await replace(acme, card)
    refused = await acme.spend(new, "11.00")
    assert (refused["decision"], refused["decline_reason"]) == ("declined", "per_day_amount_exceeded")
    assert (await acme.spend(new, "10.00"))["decision"] == "approved"


async def test_messages_of_the_old_number_still_work(running: Installation, acme: Caller) -> None:
    card = await acme.funded_card()
    old = await plastic(running, card)
    address = {"host": "127.0.0.1", "port": running.services.settings.iso8583_port}
    async with Acquirer(address) as acquirer:
        sales = [purchase(old, "10.00"), purchase(old, "20.00")]
        assert [(await acquirer.exchange(sale))["39"] for sale in sales] == ["00", "00"]
        new = await replace(acme, card)
        assert (await acquirer.exchange(purchase(old, "1.00")))["39"] == "41"
        assert (await acquirer.exchange(follow_up("0220", sales[0], "10.00")))["39"] == "00"
        assert (await acquirer.exchange(follow_up("0400", sales[1])))["39"] == "00"
        assert (await acquirer.exchange(purchase(old, "5.00", de3="200000")))["39"] == "00"
        assert (await acquirer.exchange(purchase(await plastic(running, new), "7.00")))["39"] == "00"
    balance = await acme.get(f"/v1/cards/{new['id']}/balance")
    assert (balance["posted"], balance["held"], balance["available"]) == ("95.00", "7.00", "88.00")


async def test_declared_balance_is_continued(acme: Caller) -> None:
    card = await acme.funded_card()
    amount = {"amount": "30.00", "currency": "EUR"}
    declared = await acme.send("PUT", f"/v1/cards/{card['id']}/declared-balance", {"balance": amount})
    new = await replace(acme, card)
    continued = await acme.get(f"/v1/cards/{new['id']}/declared-balance")
    assert continued == declared.json() | {"card_id": new["id"]}


@pytest.mark.parametrize(
    ("form_factor", "fields", "state"),
    [
        ("virtual", {}, "active"),
        ("virtual", {"activate": False}, "unactivated"),
        ("physical", {}, "unactivated"),
        ("physical", {"activate": True}, "active"),
    ],
)
async def test_first_state_of_a_replacement(
    acme: Caller, form_factor: str, fields: dict[str, Any], state: str
) -> None:
    programme = await acme.programme()
    product = await acme.product(programme, form_factor=form_factor)
    card = await acme.card(product, await acme.cardholder(programme))
    assert (await replace(acme, card, **fields))["state"] == state


async def test_unfunded_card_is_replaced_on_its_shard(acme: Caller) -> None:
    programme = await acme.programme()
    card = await acme.card(
        await acme.product(programme), await acme.cardholder(programme), funding_account_id=None
    )
    new = await replace(acme, card)
    assert (new["funding_account_id"], new["id"][-2:]) == (None, card["id"][-2:])


async def test_card_is_replaced_once(acme: Caller) -> None:
    card = await acme.funded_card()
    path = f"/v1/cards/{card['id']}/replace"
    answers = await asyncio.gather(*(acme.send("POST", path, {"reason": "lost"}) for _ in range(8)))
    assert sorted(answer.status_code for answer in answers) == [201] + [409] * 7
    slugs = {answer.json()["type"].rpartition("/")[2] for answer in answers if answer.status_code == 409}
    assert slugs == {"card-already-replaced"}
    listed = await acme.get(f"/v1/cards?cardholder_id={card['cardholder_id']}")
    assert len(listed["data"]) == 2


async def test_key_has_one_replacement(running: Installation, acme: Caller) -> None:
    card = await acme.funded_card()
    path, body = f"/v1/cards/{card['id']}/replace", {"reason": "stolen"}
    answers = [await acme.send("POST", path, body, key="one") for _ in range(3)]
    assert [answer.status_code for answer in answers] == [201] * 3
    assert len({answer.content for answer in answers}) == 1
    assert answers[2].headers["idempotent-replayed"] == "true"
    other = await acme.send("POST", path, {"reason": "lost"}, key="one")
    assert other.status_code == 409
    unused = "SELECT count(*) FROM pans p WHERE NOT EXISTS (SELECT FROM cards WHERE id = p.card_id)"
    assert await running.services.pool.fetchval(unused) == 0


async def test_interrupted_replacement_is_finished_by_the_sweeper(
    running: Installation, acme: Caller
) -> None:
    """The API server ends after the owner's commit, before it has released the new card."""
    card, services = await acme.funded_card(), running.services
    of = await services.pool.fetchrow("SELECT tenant_id::text, live FROM cards WHERE id = $1", card["id"])
    assert of is not None
    found = await find_replaceable(services, card["id"], of["tenant_id"], of["live"])
    command = await prepare(services, found, "lost")
    assert isinstance(await services.owners.submit(command), Done)
    new = await acme.get(f"/v1/cards/{command.id}")
    assert (await acme.spend(new, "1.00"))["decline_reason"] == "cardholder_blocked"
    due = "UPDATE card_issues SET resume_at = now() - interval '1 second' WHERE card_id = $1"
    await services.pool.execute(due, command.id)
    assert await sweep(services) == 1
    assert (await acme.spend(new, "1.00"))["decision"] == "approved"


async def test_number_of_a_replacement_that_never_happened_is_released(
    running: Installation, acme: Caller
) -> None:
    card, services = await acme.funded_card(), running.services
    of = await services.pool.fetchrow("SELECT tenant_id::text, live FROM cards WHERE id = $1", card["id"])
    assert of is not None
    found = await find_replaceable(services, card["id"], of["tenant_id"], of["live"])
    command = await prepare(services, found, "lost")
    numbers = "SELECT count(*) FROM pans WHERE card_id = $1"
    assert await services.pool.fetchval(numbers, command.id) == 1
    due = "UPDATE card_issues SET resume_at = now() - interval '1 second' WHERE card_id = $1"
    await services.pool.execute(due, command.id)
    assert await sweep(services) == 1
    assert await services.pool.fetchval(numbers, command.id) == 0
    assert (await acme.get(f"/v1/cards/{card['id']}"))["replaced_by"] is None


async def test_lost_card_can_be_replaced_later_for_the_same_reason(acme: Caller) -> None:
    card = await acme.funded_card()
    await acme.patch(f"/v1/cards/{card['id']}", {"state": "lost", "state_reason": "in a taxi"})
    refused = await replace(acme, card, "stolen", 409)
    assert refused["type"].endswith("/invalid-state-transition")
    await replace(acme, card, "lost")
    old = await acme.get(f"/v1/cards/{card['id']}")
    assert (old["state"], old["state_reason"]) == ("lost", "in a taxi")


async def test_refusals(acme: Caller) -> None:
    card = await acme.funded_card()
    for body in (
        {},
        {"reason": "bored"},
        {"reason": "lost", "activate": "yes"},
        {"reason": "lost", "pan": "1"},
    ):
        await acme.post(f"/v1/cards/{card['id']}/replace", body, 400)
    await acme.patch(f"/v1/cardholders/{card['cardholder_id']}", {"status": "blocked"})
    refused = await replace(acme, card, status=409)
    assert refused["type"].endswith("/cardholder-not-active")
    await acme.patch(f"/v1/cardholders/{card['cardholder_id']}", {"status": "active"})
    await acme.patch(f"/v1/programs/{card['programme_id']}", {"status": "closed"})
    refused = await replace(acme, card, status=409)
    assert refused["type"].endswith("/programme-closed")
    assert (await acme.get(f"/v1/cards/{card['id']}"))["state"] == "active"


async def test_card_of_a_retired_product_can_be_replaced(acme: Caller) -> None:
    card = await acme.funded_card()
    await acme.post(f"/v1/card-products/{card['card_product_id']}/retire", status=200)
    assert (await replace(acme, card))["state"] == "active"


async def test_events_of_a_replacement(acme: Caller) -> None:
    card = await acme.funded_card()
    records = {"external_ref": "card-7", "metadata": {"team": "north"}}
    await acme.patch(f"/v1/cards/{card['id']}", records)
    new = await replace(acme, card, "damaged")
    types = "card.created,card.updated,card.replaced"
    events = (await acme.get(f"/v1/events?types={types}&limit=3"))["data"]
    found = {event["type"]: event["data"] for event in events}
    assert found.keys() == {"card.created", "card.updated", "card.replaced"}
    assert found["card.created"]["id"] == new["id"]
    for event in (found["card.created"], found["card.updated"]):
        assert {name: event[name] for name in records} == records
    assert (found["card.updated"]["id"], found["card.updated"]["replaced_by"]) == (card["id"], new["id"])
    replaced = found["card.replaced"]
    assert (replaced["card_id"], replaced["replaced_by"]) == (card["id"], new["id"])
    assert (replaced["reason"], replaced["state"]) == ("damaged", "terminated")
