"""The first steps of a customer, from a funded card to an explained decision."""

from __future__ import annotations

from engine.webhooks.catalogue import CATALOGUE
from tests.support.api.driver import Caller


async def test_funded_card_approves_and_declines_a_denied_mcc(acme: Caller) -> None:
    card = await acme.funded_card("100.00", controls=[{"kind": "mcc_deny", "values": ["7995"]}])
    approved = await acme.spend(card, "42.50")
    assert (approved["state"], approved["decision"]) == ("decided", "approved")
    assert approved["approved_amount"] == {"amount": "42.50", "currency": "EUR"}
    assert approved["hold_id"]

    balance = await acme.get(f"/v1/cards/{card['id']}/balance")
    assert (balance["posted"], balance["held"], balance["available"]) == ("100.00", "42.50", "57.50")

    declined = await acme.spend(card, "5.00", mcc="7995")
    assert (declined["decision"], declined["decline_reason"]) == ("declined", "mcc_not_allowed")

    transaction = await acme.get(f"/v1/transactions/{approved['transaction_id']}")
    assert transaction["status"] == "pending"
    assert transaction["network"]["stan"] == approved["stan"]
    assert [step["outcome"] for step in transaction["trace"]].count("fail") == 0

    types = [event["type"] for event in (await acme.get("/v1/events"))["data"]]
    assert types.count("authorization.decided") == 2
    assert {"card.created", "ledger.hold.created", "ledger.entry.posted", "programme.created"} <= set(types)
    assert set(types) <= CATALOGUE.keys()
