"""Gateway mode on the whole path: wire, decision requests over HTTPS, journal, posting instructions.

Covers the cases of ``ops/docs/WIRE.md`` about holds; a gateway programme has instructions instead.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator
from itertools import count
from typing import Any

import pytest
import pytest_asyncio

from actors.settings import Settings
from ops.embedded.local_https import with_local_egress
from tests.conftest import PostgresServer
from tests.support.api.delegation import activity, declare, money, policy, put_policy
from tests.support.api.driver import Caller
from tests.support.api.stack import Installation
from tests.support.conformance.acquirer import Acquirer, plain_number
from tests.support.conformance.audited import audited, own_settings
from tests.support.conformance.decision_endpoint import (
    DecisionEndpoint,
    approve,
    approve_up_to,
    decision_endpoint,
    decline,
    hang_up,
)
from tests.support.conformance.peer import Network

pytestmark = pytest.mark.asyncio(loop_scope="module")
_tenants = count(1)
SALE = "SN1"
PATIENCE_SECONDS = 60.0
_LETTERS = {
    ("issued", "authorization"): "A",
    ("issued", "increment"): "I",
    ("issued", "refund"): "R",
    ("released", "credit"): "G",
    ("released", "debit"): "T",
    ("created", "debit"): "D",
    ("created", "credit"): "C",
}


@pytest.fixture(scope="module")
def module_settings(
    postgres_server: PostgresServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Settings]:
    with own_settings(postgres_server, tmp_path_factory, "gateway", enable_gateway=True) as settings:
        yield with_local_egress(settings)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def running(module_settings: Settings) -> AsyncIterator[Installation]:
    async with audited(module_settings) as started:
        yield started


@pytest_asyncio.fixture(loop_scope="module")
async def endpoint(module_settings: Settings) -> AsyncIterator[DecisionEndpoint]:
    async with decision_endpoint(module_settings.var_dir) as serving:
        yield serving


@pytest_asyncio.fixture(loop_scope="module")
async def acme(running: Installation) -> Caller:
    return await running.caller(f"tenant-{next(_tenants)}")


@pytest_asyncio.fixture(loop_scope="module")
async def network(module_settings: Settings, running: Installation) -> AsyncIterator[Network]:
    async with await Network.connect(
        (module_settings.iso8583_host, module_settings.iso8583_port)
    ) as platform:
        yield platform


async def acquirer_of(
    installation: Installation, caller: Caller, network: Network, **fields: Any
) -> Acquirer:
    """An acquirer for a new card of a new gateway programme."""
    programme = await caller.programme(mode="gateway", **fields)
    card = await caller.card(await caller.product(programme), await caller.cardholder(programme))
    number = await plain_number(installation, card["id"])
    return Acquirer(installation, caller, card, number, network)


@pytest_asyncio.fixture(loop_scope="module")
async def acquirer(running: Installation, acme: Caller, network: Network) -> Acquirer:
    """An acquirer for a card whose programme lets the platform decide."""
    return await acquirer_of(running, acme, network)


@pytest_asyncio.fixture(loop_scope="module")
async def delegated(
    running: Installation, acme: Caller, network: Network, endpoint: DecisionEndpoint
) -> Acquirer:
    """An acquirer for a card whose programme decides and keeps the ledger. Stand-in approves up to 50.00, and
    100.00 in an outage."""
    fields = {"decisioning": "delegated", "decision_url": endpoint.url, "decision_timeout_ms": 3_000}
    made = await acquirer_of(running, acme, network, **fields)
    await put_policy(acme, made.card["programme_id"], policy())
    await declare(acme, made.card, "80.00")
    return made


async def instructed(acquirer: Acquirer) -> str:
    """All posting instructions: A, I, R issued; G, T released; D, C cleared (debit, credit). The events of
    one message have no order."""
    page = await acquirer.caller.get("/v1/events?limit=100")
    shown = []
    for event in reversed(page["data"]):
        *_, about, verb = event["type"].split(".")
        if about == "posting_instruction":
            data = event["data"]
            shown.append(_LETTERS[verb, data.get("type", data["direction"])] + data["amount"])
    return " ".join(shown)


async def status(acquirer: Acquirer, sale: str = SALE) -> str:
    return str((await acquirer.transaction(sale))["status"])


# --- the platform decides ---


async def test_cases_1_7_and_14_repeats_create_no_second_instruction(acquirer: Acquirer) -> None:
    request = acquirer.message("0100", "10.00", SALE)
    first = await acquirer.network.ask(request)
    assert await acquirer.network.ask(request | {"t": "0101"}) == first
    raised = acquirer.message("0100", "5.00", SALE, t06="INC")
    assert [await acquirer.exchange(raised) for _ in range(2)] == ["00", "00"]
    presented = acquirer.presentment("4.00", SALE, final=False)
    assert [await acquirer.exchange(presented) for _ in range(2)] == ["00", "00"]
    reversed_ = acquirer.message("0420", "0.00", SALE)
    assert [await acquirer.exchange(reversed_), await acquirer.exchange(reversed_ | {"t": "0421"})] == [
        "00",
        "00",
    ]
    assert await instructed(acquirer) == "A10.00 I5.00 D4.00 G11.00"
    assert await status(acquirer) == "cleared"
    assert await acquirer.balance() == ("0.00", "0.00", "0.00")


async def test_cases_5_and_6_reversal_before_its_original_releases_it(acquirer: Acquirer) -> None:
    assert await acquirer.reverse(SALE) == "00"
    assert await acquirer.authorize("10.00", SALE) == "00"
    assert sorted((await instructed(acquirer)).split()) == ["A10.00", "G10.00"]
    assert await status(acquirer) == "reversed"


async def test_cases_13_15_and_17_captures_create_debits(acquirer: Acquirer) -> None:
    await acquirer.authorize("10.00", SALE)
    assert await acquirer.present("4.00", SALE, 1, final=False) == "00"
    assert await status(acquirer) == "partially_cleared"
    assert await acquirer.present("9.00", SALE, 2, final=False) == "00"
    assert await status(acquirer) == "cleared"
    assert await acquirer.present("1.00", SALE, 3) == "00"
    assert await instructed(acquirer) == "A10.00 D4.00 D9.00 D1.00"
    assert (await acquirer.transaction(SALE))["events"][-1]["remark"] == "late"


async def test_case_12_final_partial_capture_releases_the_rest(acquirer: Acquirer) -> None:
    await acquirer.authorize("10.00", SALE)
    assert await acquirer.present("4.00", SALE) == "00"
    assert sorted((await instructed(acquirer)).split()) == ["A10.00", "D4.00", "G6.00"]
    shown = await acquirer.transaction(SALE)
    assert (shown["status"], shown["reversed_amount"]) == ("cleared", "0.00")


async def test_cases_16_and_39_advices_adjust_the_amount(acquirer: Acquirer) -> None:
    await acquirer.authorize("10.00", SALE)
    assert [await acquirer.advise("12.00", SALE), await acquirer.advise("7.00", SALE)] == ["00", "00"]
    assert await acquirer.advise("3.00", "SN2") == "00"
    assert await acquirer.present("7.00", SALE) == "00"
    assert await instructed(acquirer) == "A10.00 I2.00 G5.00 A3.00 D7.00"


async def test_cases_20_and_21_increment_raises_or_is_a_new_authorization(acquirer: Acquirer) -> None:
    await acquirer.authorize("10.00", SALE)
    await acquirer.present("4.00", SALE, final=False)
    assert await acquirer.increment("1.00", SALE) == "00"
    assert await acquirer.reverse(SALE) == "00"
    assert await acquirer.increment("2.00", SALE) == "00"
    assert await instructed(acquirer) == "A10.00 D4.00 I1.00 G7.00 A2.00"
    assert [each["status"] for each in await acquirer.transactions()] == ["cleared", "pending"]


async def test_reversal_before_its_increment_releases_only_the_increment(acquirer: Acquirer) -> None:
    await acquirer.authorize("10.00", SALE)
    raised = acquirer.message("0100", "5.00", SALE, t06="INC")
    named = f"0100{raised['11']}{raised['7']}{raised['32'].zfill(11)}{'0' * 11}"
    assert await acquirer.exchange(acquirer.message("0400", "5.00", de90=named)) == "00"
    assert await acquirer.exchange(raised) == "00"
    assert sorted((await instructed(acquirer)).split()) == ["A10.00", "G5.00", "I5.00"]
    shown = await acquirer.transaction(SALE)
    assert (shown["status"], shown["approved_amount"], shown["reversed_amount"]) == (
        "pending",
        "15.00",
        "5.00",
    )


async def test_cases_25_and_26_refunds_create_credits(acquirer: Acquirer) -> None:
    assert await acquirer.authorize("10.00", SALE, de3="200000") == "00"
    refund = acquirer.presentment("10.00", SALE, refund=True)
    assert [await acquirer.exchange(refund) for _ in range(2)] == ["00", "00"]
    assert await acquirer.exchange(acquirer.presentment("3.00", "SN2", refund=True)) == "00"
    assert await acquirer.authorize("5.00", "SN3", de3="200000") == "00"
    assert await acquirer.reverse("SN3") == "00"
    assert await instructed(acquirer) == "R10.00 C10.00 C3.00 R5.00 T5.00"
    assert [each["status"] for each in await acquirer.transactions()] == ["cleared", "posted", "reversed"]


async def test_parallel_increments_create_one_instruction_each(acquirer: Acquirer) -> None:
    await acquirer.authorize("10.00", SALE)
    request = [acquirer.message("0100", "1.00", SALE, t06="INC") for _ in range(8)]
    assert await acquirer.exchange_all(*request) == ["00"] * 8
    assert (await acquirer.transaction(SALE))["approved_amount"] == "18.00"
    assert await instructed(acquirer) == "A10.00" + " I1.00" * 8


# --- the programme decides ---


async def test_programme_decisions_create_instructions(
    delegated: Acquirer, endpoint: DecisionEndpoint
) -> None:
    assert await delegated.authorize("10.00", SALE) == "00"
    assert await delegated.increment("5.00", SALE) == "00"
    endpoint.behave = approve_up_to("4.00")
    assert await delegated.authorize("9.00", "SN2", t07="1") == "10"
    endpoint.behave = decline
    assert await delegated.authorize("9.00", "SN3") == "05"
    assert await delegated.increment("1.00", SALE) == "05"
    assert await instructed(delegated) == "A10.00 I5.00 A4.00"
    assert [question["operation"] for question in endpoint.questions] == [
        "authorization",
        "increment",
        "authorization",
        "authorization",
        "increment",
    ]
    assert (await delegated.transaction(SALE))["decided_by"] == "programme"


async def test_transaction_continues_through_an_outage(
    running: Installation, delegated: Acquirer, endpoint: DecisionEndpoint
) -> None:
    """The programme approves; stand-in approves an increment; then reversal, owner change, clearing, end of
    outage."""
    programme_id = delegated.card["programme_id"]
    assert await delegated.authorize("30.00", SALE) == "00"
    endpoint.behave = hang_up
    assert await delegated.increment("20.00", SALE) == "00"
    assert await delegated.authorize("50.01", "SN2") == "61"
    assert await delegated.authorize("40.00", "SN3") == "00"
    assert await delegated.authorize("25.00", "SN4") == "51"
    assert await delegated.reverse(SALE, remaining="35.00") == "00"
    assert await delegated.reverse("SN3") == "00"
    declared = await delegated.caller.get(f"/v1/cards/{delegated.card['id']}/declared-balance")
    assert declared["remaining"] == money("20.00")
    await running.replace_host()
    assert await delegated.present("15.00", SALE, 1, final=False) == "00"
    endpoint.behave = approve
    assert await delegated.increment("2.00", SALE) == "00"
    assert await delegated.present("22.00", SALE, 2) == "00"
    assert await instructed(delegated) == ("A30.00 I20.00 A40.00 G15.00 G40.00 D15.00 I2.00 D22.00")
    shown = await delegated.transaction(SALE)
    assert (shown["status"], shown["hold_id"], shown["decided_by"]) == ("cleared", None, "programme")
    assert [
        (each["rule"], each["exposure_minor"]) for each in await activity(delegated.caller, programme_id)
    ] == [
        ("declared_balance_exceeded", "0"),
        ("within_ceilings", "4000"),
        ("max_amount_exceeded", "0"),
        ("within_ceilings", "2000"),
    ]
    assert await finished(delegated) == [programme_id]


async def finished(acquirer: Acquirer) -> list[str]:
    """The programmes with a finished outage, once there is one. The programme's owner publishes the event
    after the answer."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        page = await acquirer.caller.get("/v1/events?types=authorization.stip_outage.finished")
        if page["data"]:
            break
        await acquirer.authorize("1.00")
    return [event["data"]["programme_id"] for event in page["data"]]


async def test_stand_in_reversed_before_it_arrived_is_released(
    delegated: Acquirer, endpoint: DecisionEndpoint
) -> None:
    endpoint.behave = hang_up
    assert await delegated.reverse(SALE) == "00"
    assert await delegated.authorize("10.00", SALE) == "00"
    assert sorted((await instructed(delegated)).split()) == ["A10.00", "G10.00"]
    shown = await delegated.transaction(SALE)
    assert (shown["status"], shown["decided_by"]) == ("reversed", "stand_in")
