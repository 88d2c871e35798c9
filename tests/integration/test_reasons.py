"""Every decline reason of the platform: requested over the wire and read over REST.

The reasons of delegated decisions and stand-in are in ``tests/conformance/test_stand_in.py``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.support.api.driver import Caller
from tests.support.integration.acquirer import MERCHANT, Acquirer, authorization_id, private_tags, purchase
from tests.support.integration.stack import Stack

AMERICAN = MERCHANT[:-2] + "US"


def wrong(cvv2: str) -> str:
    return f"{(int(cvv2) + 1) % 1000:03d}"


@dataclass(frozen=True)
class Case:
    """A card, changes to it, and a spend that must be declined."""

    reason: str
    code: str
    controls: tuple[dict[str, Any], ...] = ()
    state: str | None = None
    programme: dict[str, Any] = field(default_factory=dict)
    cardholder: dict[str, Any] = field(default_factory=dict)
    network: str = "visa"
    form_factor: str = "virtual"
    amount: str = "1.00"
    before: int = 0
    """Number of approved spends of 1.00 before it."""
    fields: dict[str, str] = field(default_factory=dict)
    wrong_cvv2: bool = False


CASES = [
    Case("card_lost", "41", state="lost"),
    Case("card_stolen", "43", state="stolen"),
    Case("card_terminated", "46", state="terminated"),
    Case("card_unactivated", "78", form_factor="physical"),
    Case("card_suspended", "62", state="suspended"),
    Case("expiry_mismatch", "54", fields={"de14": "2001"}),
    Case("programme_inactive", "57", programme={"status": "suspended"}),
    Case("cardholder_blocked", "57", cardholder={"status": "blocked"}),
    Case("cvv2_mismatch", "N7", wrong_cvv2=True),
    Case("cvv2_mismatch", "05", wrong_cvv2=True, network="mastercard"),
    Case("cvv1_mismatch", "05", fields={"de35": "{pan}={expiry}101"}),
    Case("pin_not_supported", "86", fields={"de52": "0123456789ABCDEF"}),
    Case("authentication_failed", "63", fields={"de48": private_tags(t02="forged")}),
    Case("invalid_amount", "13", amount="0.00", fields={"de3": "200000"}),
    Case("currency_not_supported", "12", fields={"de49": "840"}),
    Case("currency_not_supported", "12", fields={"de49": "392"}),
    Case("mcc_not_allowed", "57", controls=({"kind": "mcc_deny", "values": ["5411"]},)),
    Case("mcc_not_allowed", "57", controls=({"kind": "mcc_allow", "values": ["5812"]},)),
    Case("country_not_allowed", "62", controls=({"kind": "country_deny", "values": ["IE"]},)),
    Case("country_not_allowed", "62", controls=({"kind": "country_allow", "values": ["FR"]},)),
    Case("channel_not_allowed", "57", controls=({"kind": "channel_deny", "values": ["pos"]},)),
    Case("channel_not_allowed", "57", controls=({"kind": "channel_allow", "values": ["atm"]},)),
    Case("per_txn_cap_exceeded", "61", controls=({"kind": "per_txn_cap", "amount": "9.99"},), amount="10.00"),
    Case("per_day_count_exceeded", "65", controls=({"kind": "per_day_cap", "count": 2},), before=2),
    Case(
        "per_day_amount_exceeded",
        "61",
        controls=({"kind": "per_day_amount_cap", "amount": "2.50"},),
        before=2,
    ),
    Case("risk_blocked", "59", fields={"de18": "7995", "de22": "901", "de25": "08", "de43": AMERICAN}),
    Case("insufficient_funds", "51", amount="100.01"),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.reason}-{case.code}")
async def test_decline_reason_on_the_wire_and_in_the_transaction(
    stack: Stack, demo: Caller, acquirer: Acquirer, case: Case
) -> None:
    programme = await demo.programme()
    product = await demo.product(
        programme,
        network=case.network,
        iin="400000" if case.network == "visa" else "510000",
        form_factor=case.form_factor,
    )
    card = await demo.card(product, await demo.cardholder(programme), controls=list(case.controls))
    await demo.load(card, "100.00")
    plastic = (await stack.card_data(card))[card["id"]]
    for _ in range(case.before):
        assert (await acquirer.exchange(purchase(plastic)))["39"] == "00"
    if case.state:
        await demo.patch(f"/v1/cards/{card['id']}", {"state": case.state})
    if case.cardholder:
        await demo.patch(f"/v1/cardholders/{card['cardholder_id']}", case.cardholder)
    if case.programme:
        await demo.patch(f"/v1/programs/{programme['id']}", case.programme)
    presented = {name: value.format(**plastic) for name, value in case.fields.items()}
    fields = presented | ({"de48": private_tags(t01=wrong(plastic["cvv2"]))} if case.wrong_cvv2 else {})

    answer = await acquirer.exchange(purchase(plastic, case.amount, **fields))

    assert (answer["39"], "38" in answer) == (case.code, False)
    transaction = await demo.get(f"/v1/transactions/{authorization_id(answer)}")
    assert (transaction["decision"], transaction["decline_reason"]) == ("declined", case.reason)
    assert [step["outcome"] for step in transaction["trace"]].index("fail") == len(transaction["trace"]) - 1


async def test_unusable_messages_are_refused_by_the_edge(
    stack: Stack, demo: Caller, acquirer: Acquirer
) -> None:
    card = await demo.funded_card()
    plastic = (await stack.card_data(card))[card["id"]]
    assert (await acquirer.exchange(purchase(plastic, de43=None)))["39"] == "30"
    assert (await acquirer.exchange(purchase(plastic, de64="0123456789ABCDEF")))["39"] == "30"
    assert (await acquirer.exchange(purchase(plastic, de55="garbage")))["39"] == "30"
    assert (await acquirer.exchange(purchase(plastic, de35="garbage")))["39"] == "30"
    assert (await acquirer.exchange(purchase(plastic | {"pan": "4999999999999995"})))["39"] == "14"
