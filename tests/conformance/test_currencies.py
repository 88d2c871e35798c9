"""Cases 43 to 52 of the table in ``ops/docs/WIRE.md``: purchases in another currency than the card's."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from itertools import count
from typing import Any

import pytest
import pytest_asyncio

from actors.settings import Settings
from engine.iso8583.profiles import SHIPPED
from tests.conftest import PostgresServer
from tests.support.api.stack import Installation
from tests.support.conformance.acquirer import Acquirer, minor, plain_number
from tests.support.conformance.audited import audited, own_settings
from tests.support.conformance.dialects import DIALECTS
from tests.support.conformance.edges import edges_of
from tests.support.conformance.peer import Document, Network

pytestmark = pytest.mark.asyncio(loop_scope="module")
_tenants = count(1)
EUR, JPY, KWD, USD = "978", "392", "414", "840"
YEN_RATE = "70061300"
"""0.00613 EUR for a yen."""


@pytest.fixture(scope="module")
def module_settings(
    postgres_server: PostgresServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Settings]:
    with own_settings(postgres_server, tmp_path_factory, "currencies") as settings:
        yield settings


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def running(module_settings: Settings) -> AsyncIterator[Installation]:
    async with audited(module_settings) as started:
        yield started


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def addresses(running: Installation) -> AsyncIterator[dict[str, tuple[str, int]]]:
    """The address of an edge for each shipped profile."""
    async with edges_of(running) as started:
        yield started


@pytest_asyncio.fixture(loop_scope="module", params=SHIPPED)
async def acquirer(
    running: Installation, addresses: dict[str, tuple[str, int]], request: pytest.FixtureRequest
) -> AsyncIterator[Acquirer]:
    """A card with 100.00 EUR, of a new tenant, and a connection in the dialect of a shipped profile."""
    caller = await running.caller(f"tenant-{next(_tenants)}")
    card = await caller.funded_card("100.00")
    async with await Network.connect(addresses[request.param], DIALECTS[request.param]) as network:
        yield Acquirer(running, caller, card, await plain_number(running, card["id"]), network)


def converted(
    acquirer: Acquirer, mti: str, yen: int, billed: str, sale: str | None = None, **fields: Any
) -> Document:
    """A message of a merchant in Japan: DE4 in yen, DE6 in the card's currency."""
    conversion = {"de4": f"{yen:012d}", "de6": minor(billed), "de10": YEN_RATE, "de49": JPY, "de51": EUR}
    return acquirer.message(mti, billed, sale, **(conversion | fields))


async def test_case_43_decision_and_hold_are_in_the_card_s_currency(acquirer: Acquirer) -> None:
    answer = await acquirer.network.ask(converted(acquirer, "0100", 1000, "6.13", "s43"))
    assert answer["39"] == "00"
    echoed = {number: answer.get(number) for number in ("4", "6", "10", "49", "51")}
    assert echoed == {"4": f"{1000:012d}", "6": minor("6.13"), "10": YEN_RATE, "49": JPY, "51": EUR}
    assert await acquirer.balance() == ("100.00", "6.13", "93.87")
    shown = await acquirer.transaction("s43")
    assert (shown["currency"], shown["requested_amount"], shown["held_amount"]) == ("EUR", "6.13", "6.13")
    assert shown["merchant_amount"] == {"amount": "1000", "currency": "JPY"}
    assert shown["conversion_rate"] == "0.00613"


async def test_case_43_event_has_the_merchant_amount(acquirer: Acquirer) -> None:
    await acquirer.exchange(converted(acquirer, "0100", 1000, "6.13", "s43e"))
    page = await acquirer.caller.get("/v1/events?limit=100")
    decided = next(each["data"] for each in page["data"] if each["type"] == "authorization.decided")
    assert decided["amount"] == "6.13"
    assert decided["merchant_amount"] == {"amount": "1000", "currency": "JPY"}
    assert decided["conversion_rate"] == "0.00613"


async def test_case_43_controls_and_funds_look_at_the_billing_amount(acquirer: Acquirer) -> None:
    controls = [{"kind": "per_txn_cap", "amount": "7.00"}]
    await acquirer.caller.patch(f"/v1/cards/{acquirer.card['id']}", {"controls": controls})
    assert await acquirer.exchange(converted(acquirer, "0100", 1200, "7.36")) == "61"
    assert await acquirer.exchange(converted(acquirer, "0100", 1100, "6.75")) == "00"


async def test_case_44_three_decimals(acquirer: Acquirer) -> None:
    request = converted(acquirer, "0100", 1250, "3.77", "s44", de49=KWD, de10="63016000")
    assert await acquirer.exchange(request) == "00"
    shown = await acquirer.transaction("s44")
    assert shown["merchant_amount"] == {"amount": "1.250", "currency": "KWD"}
    assert shown["conversion_rate"] == "3.016"


async def test_case_45_equal_currencies_are_no_conversion(acquirer: Acquirer) -> None:
    same = {"de4": minor("5.00"), "de49": EUR, "de10": None}
    assert await acquirer.exchange(converted(acquirer, "0100", 0, "5.00", "s45", **same)) == "00"
    shown = await acquirer.transaction("s45")
    assert (shown["merchant_amount"], shown["conversion_rate"]) == (
        {"amount": "5.00", "currency": "EUR"},
        None,
    )
    different = same | {"de4": minor("5.01")}
    assert await acquirer.exchange(converted(acquirer, "0100", 0, "5.00", **different)) == "30"


@pytest.mark.parametrize("fields", [{"de51": USD}, {"de6": None, "de10": None, "de51": None}])
async def test_case_46_without_the_card_s_currency_it_is_declined(
    acquirer: Acquirer, fields: dict[str, str | None]
) -> None:
    assert await acquirer.exchange(converted(acquirer, "0100", 1000, "6.13", "s46", **fields)) == "12"
    assert (await acquirer.transaction("s46"))["decline_reason"] == "currency_not_supported"
    assert await acquirer.balance() == ("100.00", "0.00", "100.00")


@pytest.mark.parametrize(
    "fields",
    [
        {"de6": None},
        {"de51": None},
        {"de6": "0" * 12},
        {"de4": "0" * 12},
        {"de49": "999"},
        {"de49": "964"},
        {"de10": "80061300"},
        {"de10": "70000000"},
    ],
    ids=["no DE6", "no DE51", "DE6 zero", "DE4 zero", "no currency", "palladium", "decimals", "rate zero"],
)
async def test_case_47_malformed_conversion_gets_30(
    acquirer: Acquirer, fields: dict[str, str | None]
) -> None:
    assert await acquirer.exchange(converted(acquirer, "0100", 1000, "6.13", **fields)) == "30"
    assert await acquirer.transactions() == []


async def test_case_48_partial_approval_states_both_amounts(acquirer: Acquirer) -> None:
    answer = await acquirer.network.ask(converted(acquirer, "0100", 20000, "122.60", "s48", t07="1"))
    assert (answer["39"], answer["6"]) == ("10", minor("100.00"))
    assert answer["4"] == f"{10000 * 20000 // 12260:012d}"
    assert f"{20000:012d}" in answer["54"]
    assert await acquirer.balance() == ("100.00", "100.00", "0.00")


async def test_case_48_terminal_s_cap_is_in_the_merchant_s_currency(acquirer: Acquirer) -> None:
    request = converted(acquirer, "0100", 1000, "6.13", "s48c", t07=f"{500:012d}")
    answer = await acquirer.network.ask(request)
    assert (answer["39"], answer["6"]) == ("10", minor("3.06"))
    assert int(answer["4"]) <= 500


async def test_case_49_increment_adds_its_billing_amount(acquirer: Acquirer) -> None:
    await acquirer.exchange(converted(acquirer, "0100", 1000, "6.13", "s49"))
    raised = converted(acquirer, "0100", 500, "3.10", "s49", t06="INC", de10="70062000")
    assert await acquirer.exchange(raised) == "00"
    assert await acquirer.balance() == ("100.00", "9.23", "90.77")
    await acquirer.exchange(converted(acquirer, "0420", 1500, "9.23", "s49"))
    assert await acquirer.balance() == ("100.00", "0.00", "100.00")


@pytest.mark.parametrize(
    ("currency", "remaining", "held"), [(JPY, 400, "2.46"), (EUR, 400, "4.00"), (JPY, 5000, "6.13")]
)
async def test_case_50_partial_reversal_leaves_its_share(
    acquirer: Acquirer, currency: str, remaining: int, held: str
) -> None:
    await acquirer.exchange(converted(acquirer, "0100", 1000, "6.13", "s50"))
    amounts = {"de49": currency, "de95": f"{remaining:012d}" + "0" * 30}
    assert await acquirer.exchange(converted(acquirer, "0400", 1000, "6.13", "s50", **amounts)) == "00"
    assert (await acquirer.balance())[1] == held


@pytest.mark.parametrize("billed", ["6.40", "5.90"])
async def test_case_51_presentment_at_another_rate_posts_what_it_bills(
    acquirer: Acquirer, billed: str
) -> None:
    await acquirer.exchange(converted(acquirer, "0100", 1000, "6.13", "s51"))
    presented = acquirer.presentment(billed, "s51")
    presented |= {"4": f"{1000:012d}", "6": minor(billed), "49": JPY, "51": EUR, "10": "70064000"}
    assert await acquirer.exchange(presented) == "00"
    posted = f"{100 - float(billed):.2f}"
    assert await acquirer.balance() == (posted, "0.00", posted)
    shown = await acquirer.transaction("s51")
    assert (shown["status"], shown["cleared_amount"]) == ("cleared", billed)
    assert shown["merchant_amount"] == {"amount": "1000", "currency": "JPY"}


async def test_case_52_refunds_force_posts_and_advices_post_the_billing_amount(acquirer: Acquirer) -> None:
    refund = converted(acquirer, "0100", 1000, "6.13", "s52r", de3="200000")
    assert await acquirer.exchange(refund) == "00"
    assert await acquirer.balance() == ("106.13", "0.00", "106.13")
    forced = acquirer.presentment("2.00", "s52f")
    forced |= {"4": f"{326:012d}", "6": minor("2.00"), "49": JPY, "51": EUR}
    assert await acquirer.exchange(forced) == "00"
    assert await acquirer.balance() == ("104.13", "0.00", "104.13")
    assert await acquirer.exchange(converted(acquirer, "0120", 500, "3.07", "s52a", de39="00")) == "00"
    assert await acquirer.balance() == ("104.13", "3.07", "101.06")
    for sale, yen in (("s52r", "1000"), ("s52f", "326"), ("s52a", "500")):
        shown = await acquirer.transaction(sale)
        assert shown["merchant_amount"] == {"amount": yen, "currency": "JPY"}
