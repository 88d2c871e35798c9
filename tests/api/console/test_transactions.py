"""The pages of transactions: filters, pages, CSV; the life, the trace and the replay of one of them."""

from __future__ import annotations

import csv
import io
import re
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.support.api.authorization_rules import RULES, rule_of
from tests.support.api.console.visitor import Visitor, visitor
from tests.support.api.driver import Caller
from tests.support.api.stack import Installation


def listed(page: str) -> list[str]:
    """The ids of the transactions in a page, in their order."""
    return re.findall(r'<tr id="t-([0-9a-f-]+)">', page)


async def lived(acme: Caller) -> Any:
    """A spend with an increment, a partial reversal and a final presentment; returns its transaction."""
    spend = await acme.spend(await acme.funded_card(), "20.00")
    path = f"/v1/simulated-spends/{spend['simulation_id']}"
    for follow_up, body in (
        ("increment", {"raise_by_amount": {"amount": "5.00", "currency": "EUR"}}),
        ("reverse", {"lower_by_amount": {"amount": "3.00", "currency": "EUR"}}),
        ("clear", {}),
    ):
        await acme.simulation((await acme.post(f"{path}/{follow_up}", body, 202))["simulation_id"])
    return await acme.get(f"/v1/transactions/{spend['transaction_id']}")


async def test_filters_of_the_list_are_those_of_the_api(running: Installation, acme: Caller) -> None:
    card = await acme.funded_card()
    first = await acme.spend(card, "1.00", mcc="5812", merchant_name="Diner")
    second = await acme.spend(card, "999.00")
    of_other = await acme.spend(await acme.funded_card(), "2.00")
    ids = {name: each["transaction_id"] for name, each in (("1", first), ("2", second), ("3", of_other))}
    rows: dict[tuple[tuple[str, str], ...], str] = {
        (): "321",
        (("card_id", card["id"]),): "21",
        (("cardholder_id", card["cardholder_id"]), ("decision", "approved")): "1",
        (("decline_reason", "insufficient_funds"),): "2",
        (("status", "declined"), ("kind", "purchase")): "2",
        (("mcc", "5812"),): "1",
        (("rrn", first["rrn"]),): "1",
        (("programme_id", card["programme_id"]), ("mcc", "")): "21",
        (("from", "2020-01-01T00:00"), ("to", "2020-01-02T00:00:00")): "",
        (("from", "2020-01-01T00:00"),): "321",
    }
    async with visitor(running, acme) as browser:
        for query, names in rows.items():
            asked = urlencode(query)
            page = (await browser.get(f"/transactions?{asked}")).text
            assert listed(page) == [ids[name] for name in names], query
            fragment = (await browser.get(f"/transactions/rows?{asked}")).text
            assert listed(fragment) == listed(page)
            assert "<html" not in fragment
        page = (await browser.get("/transactions")).text
        assert f"••{card['last4']}" in page
        assert "Diner" in page
        assert "data-tail" in page
        assert "data-tail" not in (await browser.get("/transactions", to="2030-01-01T00:00")).text


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"mcc": "54"}, "mcc"),
        ({"card_id": "' OR 1=1"}, "card_id"),
        ({"from": "yesterday"}, "from"),
        ({"decline_reason": "bad_mood"}, "decline_reason"),
    ],
)
async def test_bad_filter_is_named_and_not_echoed_as_a_fault(
    running: Installation, acme: Caller, query: dict[str, str], field: str
) -> None:
    async with visitor(running, acme) as browser:
        page = (await browser.get("/transactions", 400, **query)).text
        assert f'id="{field}-error"' in page or f"<code>{field}</code>" in page
        await browser.get("/transactions/rows", 400, **query)
        await browser.get("/transactions/transactions.csv", 400, **query)


async def test_pages_go_forward_and_back(
    running: Installation, acme: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("api.console.view.PAGE_ROWS", 2)
    card = await acme.funded_card()
    ids = [(await acme.spend(card, "1.00"))["transaction_id"] for _ in range(5)][::-1]
    async with visitor(running, acme) as browser:
        page = (await browser.get("/transactions", card_id=card["id"])).text
        seen = [listed(page)]
        while older := re.search(r'rel="next" href="([^"]+)"', page):
            page = (await browser.http.get(f"/console/transactions{older[1].replace('&amp;', '&')}")).text
            seen.append(listed(page))
        assert seen == [ids[:2], ids[2:4], ids[4:]]
        newer = re.search(r'rel="prev" href="([^"]+)"', page)
        assert newer is not None
        page = (await browser.http.get(f"/console/transactions{newer[1].replace('&amp;', '&')}")).text
        assert listed(page) == ids[2:4]


async def test_csv_has_the_rows_that_match_and_no_formulas(
    running: Installation, acme: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("api.console.pages.transactions.PAGE_LIMIT_MAX", 2)
    card = await acme.funded_card()
    await acme.spend(card, "1.00", merchant_name="=1+1", merchant_country="IE")
    for _ in range(4):
        await acme.spend(card, "2.00")
    async with visitor(running, acme) as browser:
        answer = await browser.get("/transactions/transactions.csv", card_id=card["id"])
        assert "attachment" in answer.headers["content-disposition"]
        rows = list(csv.DictReader(io.StringIO(answer.text)))
        assert len(rows) == 5
        assert rows[-1]["merchant_name"] == "'=1+1"
        assert {row["card_id"] for row in rows} == {card["id"]}
        assert rows[0]["requested_amount"] == "2.00"
        monkeypatch.setattr("api.console.pages.transactions.CONSOLE_CSV_ROWS_MAX", 3)
        answer = await browser.get("/transactions/transactions.csv")
        assert len(list(csv.DictReader(io.StringIO(answer.text)))) == 3


async def test_transaction_shows_its_whole_life(running: Installation, acme: Caller) -> None:
    transaction = await lived(acme)
    events = (await acme.get(f"/v1/events?authorization_id={transaction['id']}"))["data"]
    endpoint = await acme.endpoint(event_types=["authorization.decided"])
    await acme.post(f"/v1/events/{events[-1]['id']}/redeliver", {"endpoint_id": endpoint["id"]}, 202)
    async with visitor(running, acme) as browser:
        page = (await browser.get(f"/transactions/{transaction['id']}")).text
        titles = re.findall(r'<div class="event">(?:<a [^>]*>)?<(?:strong|code)>([^<]+)', page)
        assert [each for each in titles if "." not in each] == [
            "Authorization",
            "Increment",
            "Reversal",
            "Presentment",
        ]
        assert {"authorization.decided", "ledger.hold.created", "ledger.hold.captured"} <= set(titles)
        assert "Posted to the ledger" in page
        for step in transaction["trace"]:
            assert f"<td>{step['rule']}</td>" in page
        for amount in ("20.00", "22.00", "3.00"):
            assert amount in page
        assert transaction["network"]["rrn"] in page
        deliveries = (await browser.get(f"/transactions/{transaction['id']}/deliveries")).text
        assert endpoint["url"] in deliveries
        assert "sent again" in deliveries
        assert events[-1]["type"] in deliveries


async def test_replay_compares_recorded_and_recomputed_decisions(running: Installation, acme: Caller) -> None:
    transaction = await lived(acme)
    async with visitor(running, acme) as browser:
        page = (await browser.post(f"/transactions/{transaction['id']}/replay", status=200)).text
        assert "equal the recorded ones byte for byte" in page
        assert "1 increments: 1 identical" in page


async def test_transaction_is_decided_again_with_its_data(running: Installation, acme: Caller) -> None:
    card = await acme.funded_card()
    spend = await acme.spend(
        card, "10.00", mcc="7995", merchant_amount={"amount": "2500", "currency": "JPY"}, entry_mode="chip"
    )
    await acme.post(RULES, rule_of("card", card["id"], state="active"))
    id_ = spend["transaction_id"]
    async with visitor(running, acme) as browser:
        assert f"transaction_id={id_}" in (await browser.get(f"/transactions/{id_}")).text
        before = (await acme.get("/v1/transactions"))["data"]
        page = (await browser.get(f"/cards/{card['id']}/evaluate", transaction_id=id_)).text
        assert "rule declined" in page
        assert "no_gambling" in page
        assert 'aria-label="Recorded trace"' in page
        assert 'aria-label="Trace now"' in page
        assert 'value="2500"' in page
        assert (await acme.get("/v1/transactions"))["data"] == before, "a dry run changes nothing"
        # The data can be changed.
        page = (
            await browser.get(
                f"/cards/{card['id']}/evaluate",
                amount="3.00",
                mcc="5411",
                channel="pos",
                merchant_name="Shop",
                transaction_id=id_,
            )
        ).text
        assert 'class="badge good">approved' in page
        page = (await browser.get(f"/cards/{card['id']}/evaluate", 400, amount="x", mcc="54")).text
        assert 'id="amount-error"' in page
        assert 'id="mcc-error"' in page


async def refused(browser: Visitor, path: str) -> None:
    await browser.get(path, 404)
    await browser.post(f"{path}/replay", status=404)


async def test_transactions_of_others_are_not_found(running: Installation, acme: Caller, tenant: str) -> None:
    transaction = await lived(acme)
    for stranger in (await running.caller(f"{tenant}-other"), acme):
        async with visitor(running, stranger) as browser:
            unknown = stranger is acme
            id_ = "019aa6f0-4f2c-7cc1-9a31-5b0f6f3f2a7e" if unknown else transaction["id"]
            await refused(browser, f"/transactions/{id_}")
            await refused(browser, "/transactions/x")


async def test_session_without_the_scope_sees_no_transactions(running: Installation, acme: Caller) -> None:
    transaction = await lived(acme)
    narrow = await running.caller(acme.credentials.name, scopes=("cards:read",))
    async with visitor(running, narrow) as browser:
        assert ">Transactions<" not in (await browser.get()).text
        for path in ("", "/rows", "/transactions.csv", f"/{transaction['id']}"):
            await browser.get(f"/transactions{path}", 403)
        page = (await browser.get(f"/cards/{transaction['card_id']}")).text
        assert "Newest transactions" not in page
