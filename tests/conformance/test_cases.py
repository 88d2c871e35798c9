"""The cases of the table in ``ops/docs/WIRE.md``, on the whole path: wire, journal, balance, transactions,
events.

Each test runs on every shipped profile. The tests have the numbers of the table. Cases 34 to 38 need a
delegated programme (``test_stand_in.py``); case 42 needs a second owner (``tests/actors/shards``).
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from itertools import count, permutations

import asyncpg
import pytest
import pytest_asyncio

from actors.ids import new_id_beside
from actors.settings import Settings
from engine.commands import Expire, Reverse, WireIdentity, reference_of_id, reference_of_message
from engine.ids import Derived, derive
from engine.iso8583.identity import AUTHORIZATION, command_key, late_reversal_key
from engine.iso8583.profiles import SHIPPED
from engine.replies import Done, WireAnswer
from tests.conftest import PostgresServer
from tests.support.api.stack import Installation
from tests.support.conformance.acquirer import Acquirer, plain_number
from tests.support.conformance.audited import audited, own_settings
from tests.support.conformance.dialects import DIALECTS
from tests.support.conformance.edges import edges_of
from tests.support.conformance.peer import Document, Network

pytestmark = pytest.mark.asyncio(loop_scope="module")
_tenants = count(1)
_arns = count(1)


@pytest.fixture(scope="module")
def module_settings(
    postgres_server: PostgresServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Settings]:
    with own_settings(postgres_server, tmp_path_factory, "cases") as settings:
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
    dialect = DIALECTS[request.param]
    async with await Network.connect(addresses[request.param], dialect) as network:
        yield Acquirer(running, caller, card, await plain_number(running, card["id"]), network)


LOADED = ["ledger.entry.posted"]
HELD = [*LOADED, "authorization.decided", "ledger.hold.created"]
"""Events of one command have one instant and thus no order, so tests compare counts."""


async def test_case_01_repeat_gets_the_stored_answer(acquirer: Acquirer) -> None:
    request = acquirer.message("0100", "10.00", "c1")
    acquirer.network.send(request)
    first = await acquirer.network.receive_bytes()
    for mti in ("0100", "0101"):
        acquirer.network.send(request | {"t": mti})
        assert await acquirer.network.receive_bytes() == first
    assert await acquirer.balance() == ("100.00", "10.00", "90.00")
    assert await acquirer.events() == Counter(HELD)


@pytest.mark.parametrize("change", [{"4": "000000000999"}, {"18": "7995"}])
async def test_case_02_other_content_under_the_same_identity_gets_94(
    acquirer: Acquirer, change: dict[str, str]
) -> None:
    request = acquirer.message("0100", "10.00", "c2")
    assert await acquirer.exchange(request) == "00"
    assert await acquirer.exchange(request | change) == "94"
    assert await acquirer.balance() == ("100.00", "10.00", "90.00")
    assert len(await acquirer.transactions()) == 1


async def test_case_03_duplicates_of_an_open_request_get_one_answer(acquirer: Acquirer) -> None:
    request = acquirer.message("0100", "10.00", "c3")
    for _ in range(3):
        acquirer.network.send(request)
    assert len({await acquirer.network.receive_bytes() for _ in range(3)}) == 1
    assert await acquirer.balance() == ("100.00", "10.00", "90.00")


async def test_case_04_reused_stan_is_a_new_transaction(acquirer: Acquirer) -> None:
    request = acquirer.message("0100", "10.00", "c4")
    assert await acquirer.exchange(request) == "00"
    next_day = request | {"7": "0101000000", "37": "7001" + request["37"][4:]}
    assert await acquirer.exchange(next_day) == "00"
    assert await acquirer.balance() == ("100.00", "20.00", "80.00")


async def test_case_05_reversal_before_its_original_leaves_no_hold(acquirer: Acquirer) -> None:
    request = acquirer.message("0100", "10.00")
    original = "0100" + request["11"] + request["7"] + "515151".zfill(11) + "0" * 11
    assert (
        await acquirer.exchange(acquirer.message("0420", "10.00", de90=original, de37=request["37"])) == "00"
    )
    await acquirer.exchange(request)
    assert await acquirer.balance() == ("100.00", "0.00", "100.00")


async def test_case_06_reversal_of_an_unknown_original_leaves_no_hold(acquirer: Acquirer) -> None:
    assert await acquirer.reverse("c6") == "00"
    await acquirer.authorize("10.00", "c6")
    assert await acquirer.balance() == ("100.00", "0.00", "100.00")
    assert (await acquirer.transaction("c6"))["status"] == "reversed"


async def test_case_07_repeated_reversal_has_no_second_effect(acquirer: Acquirer) -> None:
    await acquirer.authorize("10.00", "c7")
    request = acquirer.message("0400", "10.00", "c7")
    acquirer.network.send(request)
    first = await acquirer.network.receive_bytes()
    acquirer.network.send(request | {"t": "0401"})
    assert await acquirer.network.receive_bytes() == first
    assert await acquirer.reverse("c7", mti="0420") == "00"
    assert await acquirer.balance() == ("100.00", "0.00", "100.00")
    assert await acquirer.events() == Counter([*HELD, "ledger.hold.released"])


async def test_case_08_reversal_advice_wins_over_a_late_approval(acquirer: Acquirer) -> None:
    request = acquirer.message("0100", "10.00", "c8")
    original = "0100" + request["11"] + request["7"] + "515151".zfill(11) + "0" * 11
    advice = acquirer.message("0420", "10.00", "c8", de90=original, de37=request["37"])
    await acquirer.exchange_all(request, advice)
    assert await acquirer.balance() == ("100.00", "0.00", "100.00")


async def test_case_09_partial_reversal_lowers_the_hold(acquirer: Acquirer) -> None:
    await acquirer.authorize("10.00", "c9")
    assert await acquirer.reverse("c9", remaining="4.00") == "00"
    assert await acquirer.balance() == ("100.00", "4.00", "96.00")
    assert await acquirer.events() == Counter(HELD)
    transaction = await acquirer.transaction("c9")
    assert (transaction["held_amount"], transaction["reversed_amount"]) == ("4.00", "6.00")


async def test_case_09_partial_reversal_lowers_the_amount_of_the_day(acquirer: Acquirer) -> None:
    controls = [{"kind": "per_day_amount_cap", "amount": "10.00"}]
    await acquirer.caller.patch(f"/v1/cards/{acquirer.card['id']}", {"controls": controls})
    assert await acquirer.authorize("10.00", "c9b") == "00"
    assert await acquirer.authorize("5.00") == "61"
    assert await acquirer.reverse("c9b", remaining="4.00") == "00"
    assert await acquirer.authorize("6.00") == "00"


async def test_case_10_reversal_after_the_capture_changes_nothing(acquirer: Acquirer) -> None:
    await acquirer.authorize("10.00", "c10")
    await acquirer.present("10.00", "c10")
    assert await acquirer.reverse("c10") == "00"
    assert await acquirer.balance() == ("90.00", "0.00", "90.00")
    assert (await acquirer.transaction("c10"))["status"] == "cleared"


async def test_case_11_capture_before_a_concurrent_reversal_posts(acquirer: Acquirer) -> None:
    await acquirer.authorize("10.00", "c11")
    reversal = acquirer.message("0400", "10.00", "c11")
    assert await acquirer.exchange_all(acquirer.presentment("10.00", "c11"), reversal) == ["00", "00"]
    assert await acquirer.balance() == ("90.00", "0.00", "90.00")


async def test_case_12_final_partial_capture_releases_the_rest(acquirer: Acquirer) -> None:
    await acquirer.authorize("10.00", "c12")
    assert await acquirer.present("6.00", "c12") == "00"
    assert await acquirer.balance() == ("94.00", "0.00", "94.00")
    assert await acquirer.events() == Counter([*HELD, "ledger.hold.captured"])
    transaction = await acquirer.transaction("c12")
    assert (transaction["status"], transaction["cleared_amount"]) == ("cleared", "6.00")


async def test_case_13_several_captures_draw_on_the_hold(acquirer: Acquirer) -> None:
    await acquirer.authorize("10.00", "c13")
    assert await acquirer.present("3.00", "c13", 1, final=False) == "00"
    assert await acquirer.balance() == ("97.00", "7.00", "90.00")
    assert (await acquirer.transaction("c13"))["status"] == "partially_cleared"
    assert await acquirer.present("4.00", "c13", 2, final=False) == "00"
    assert await acquirer.balance() == ("93.00", "3.00", "90.00")
    assert await acquirer.present("1.00", "c13", 3) == "00"
    assert await acquirer.balance() == ("92.00", "0.00", "92.00")


async def test_case_14_repeated_presentment_posts_once(acquirer: Acquirer) -> None:
    await acquirer.authorize("10.00", "c14")
    assert await acquirer.present("10.00", "c14") == "00"
    assert await acquirer.present("10.00", "c14") == "00"
    assert await acquirer.balance() == ("90.00", "0.00", "90.00")
    assert (await acquirer.events())["ledger.hold.captured"] == 1


async def test_case_15_over_capture_posts_in_full(acquirer: Acquirer) -> None:
    controls = [{"kind": "per_txn_cap", "amount": "90.00"}]
    await acquirer.caller.patch(f"/v1/cards/{acquirer.card['id']}", {"controls": controls})
    await acquirer.authorize("90.00", "c15")
    assert await acquirer.present("120.00", "c15") == "00"
    assert await acquirer.balance() == ("-20.00", "0.00", "-20.00")


@pytest.mark.parametrize("amount", ["15.00", "4.00"])
async def test_case_16_advice_sets_the_hold_to_its_amount(acquirer: Acquirer, amount: str) -> None:
    await acquirer.authorize("10.00", "c16")
    assert await acquirer.advise(amount, "c16") == "00"
    _, held, _ = await acquirer.balance()
    assert held == amount


@pytest.mark.parametrize("ended", ["reversed", "lapsed"])
async def test_case_17_capture_without_a_hold_posts(acquirer: Acquirer, ended: str) -> None:
    await acquirer.authorize("10.00", "c17")
    await (acquirer.reverse("c17") if ended == "reversed" else lapse(acquirer, "c17"))
    assert await acquirer.present("10.00", "c17") == "00"
    assert await acquirer.balance() == ("90.00", "0.00", "90.00")
    assert (await acquirer.transaction("c17"))["status"] == "cleared"


async def test_case_18_force_post_posts_and_counts(acquirer: Acquirer) -> None:
    controls = [{"kind": "per_day_amount_cap", "amount": "130.00"}]
    await acquirer.caller.patch(f"/v1/cards/{acquirer.card['id']}", {"controls": controls})
    assert await acquirer.present("120.00", "c18") == "00"
    assert await acquirer.balance() == ("-20.00", "0.00", "-20.00")
    await acquirer.caller.load(acquirer.card, "100.00")
    assert await acquirer.authorize("11.00") == "61"
    assert await acquirer.authorize("10.00") == "00"
    assert (await acquirer.transaction("c18"))["kind"] == "force_post"


async def test_case_19_increment_of_a_lapsed_hold_renews_it(acquirer: Acquirer) -> None:
    await acquirer.authorize("60.00", "c19")
    await lapse(acquirer, "c19")
    assert await acquirer.balance() == ("100.00", "0.00", "100.00")
    assert await acquirer.increment("41.00", "c19") == "51"
    assert await acquirer.increment("40.00", "c19") == "00"
    assert await acquirer.balance() == ("100.00", "100.00", "0.00")


async def test_case_20_increment_after_a_partial_capture_raises_the_hold(acquirer: Acquirer) -> None:
    await acquirer.authorize("10.00", "c20")
    await acquirer.present("4.00", "c20", final=False)
    assert await acquirer.increment("5.00", "c20") == "00"
    assert await acquirer.balance() == ("96.00", "11.00", "85.00")


@pytest.mark.parametrize("closed", [False, True])
async def test_case_21_increment_without_an_open_original_is_a_new_authorization(
    acquirer: Acquirer, closed: bool
) -> None:
    if closed:
        await acquirer.authorize("10.00", "c21")
        await acquirer.reverse("c21")
    assert await acquirer.increment("5.00", "c21") == "00"
    assert await acquirer.balance() == ("100.00", "5.00", "95.00")
    assert len(await acquirer.transactions()) == 1 + closed


async def test_case_22_parallel_increments_never_exceed_the_balance(acquirer: Acquirer) -> None:
    await acquirer.authorize("70.00", "c22")
    increments = [acquirer.message("0100", "10.00", "c22", t06="INC") for _ in range(5)]
    assert sorted(await acquirer.exchange_all(*increments)) == ["00", "00", "00", "51", "51"]
    assert await acquirer.balance() == ("100.00", "100.00", "0.00")
    assert (await acquirer.events())["ledger.hold.created"] == 1


async def test_case_23_declined_increment_leaves_the_original_unchanged(acquirer: Acquirer) -> None:
    await acquirer.authorize("10.00", "c23")
    before = await acquirer.transaction("c23")
    assert await acquirer.increment("91.00", "c23") == "51"
    after = await acquirer.transaction("c23")
    unchanged = ("status", "approved_amount", "held_amount", "hold_id", "decision")
    assert [after[name] for name in unchanged] == [before[name] for name in unchanged]


async def test_case_22_increment_is_reversed_by_itself(acquirer: Acquirer) -> None:
    await acquirer.authorize("10.00", "c22b")
    increment = acquirer.message("0100", "5.00", "c22b", t06="INC")
    assert await acquirer.exchange(increment) == "00"
    named = "0100" + increment["11"] + increment["7"] + "515151".zfill(11) + "0" * 11
    for mti in ("0400", "0420"):
        reversal = acquirer.message(mti, "5.00", "c22b", de90=named, de37=increment["37"])
        assert await acquirer.exchange(reversal) == "00"
        assert await acquirer.balance() == ("100.00", "10.00", "90.00")
    assert await acquirer.reverse("c22b") == "00"
    assert await acquirer.balance() == ("100.00", "0.00", "100.00")


async def test_case_05_reversal_before_its_increment_leaves_the_sale_held(acquirer: Acquirer) -> None:
    await acquirer.authorize("10.00", "S1")
    raised = acquirer.message("0100", "5.00", "S1", t06="INC")
    named = f"0100{raised['11']}{raised['7']}{raised['32'].zfill(11)}{'0' * 11}"
    assert await acquirer.exchange(acquirer.message("0400", "5.00", de90=named)) == "00"
    assert await acquirer.exchange(raised) == "00"
    shown = await acquirer.transaction("S1")
    figures = [shown[f"{name}_amount"] for name in ("approved", "held", "reversed")]
    assert (shown["status"], figures) == ("pending", ["15.00", "10.00", "5.00"])


async def test_case_24_partial_approval_counts_the_approved_amount(acquirer: Acquirer) -> None:
    controls = [{"kind": "per_day_amount_cap", "amount": "250.00"}]
    await acquirer.caller.patch(f"/v1/cards/{acquirer.card['id']}", {"controls": controls})
    assert await acquirer.authorize("120.00", "c24") == "51"
    answer = await acquirer.network.ask(acquirer.message("0100", "120.00", "c24b", t07="1"))
    assert (answer["39"], answer["4"]) == ("10", "000000010000")
    assert "000000012000" in answer["54"]
    await acquirer.caller.load(acquirer.card, "200.00")
    assert await acquirer.authorize("150.00") == "00"


async def test_case_25_refund_without_a_purchase_posts_at_once(acquirer: Acquirer) -> None:
    await acquirer.caller.patch(f"/v1/cards/{acquirer.card['id']}", {"state": "suspended"})
    assert await acquirer.authorize("5.00", "c25", de3="200000") == "00"
    assert await acquirer.balance() == ("105.00", "0.00", "105.00")
    assert await acquirer.events() == Counter([*LOADED, "authorization.decided", "ledger.entry.posted"])


async def test_case_26_presented_refund_posts_once(acquirer: Acquirer) -> None:
    await acquirer.authorize("5.00", "c26", de3="200000")
    assert await acquirer.present("5.00", "c26", refund=True) == "00"
    assert await acquirer.balance() == ("105.00", "0.00", "105.00")
    assert await acquirer.present("7.00", "c26b", refund=True) == "00"
    assert await acquirer.balance() == ("112.00", "0.00", "112.00")


async def test_case_26_each_partial_refund_is_credited(acquirer: Acquirer) -> None:
    await acquirer.authorize("60.00", "c26c")
    assert await acquirer.present("60.00", "c26c") == "00"
    first, second = (f"9{next(_arns):022d}" for _ in range(2))
    for arn in (first, second, second):
        assert await acquirer.present("10.00", "c26c", arn=arn, refund=True) == "00"
    assert await acquirer.balance() == ("60.00", "0.00", "60.00")


async def test_case_13_capture_after_a_refund_draws_on_the_hold(acquirer: Acquirer) -> None:
    await acquirer.authorize("60.00", "c13b")
    await acquirer.present("30.00", "c13b", final=False)
    await acquirer.present("10.00", "c13b", 2, refund=True)
    assert await acquirer.present("30.00", "c13b", 3) == "00"
    assert await acquirer.balance() == ("50.00", "0.00", "50.00")
    assert {each["kind"] for each in await acquirer.transactions()} == {"purchase", "refund"}


async def test_case_09_partial_reversal_of_a_refund(acquirer: Acquirer) -> None:
    await acquirer.authorize("7.00", "c9c", de3="200000")
    assert await acquirer.reverse("c9c", remaining="3.00") == "00"
    assert await acquirer.balance() == ("103.00", "0.00", "103.00")


async def test_case_10_late_reversal_does_not_debit_the_refund(acquirer: Acquirer) -> None:
    await acquirer.authorize("10.00", "c10b")
    await acquirer.authorize("4.00", "c10b", de3="200000")
    assert await acquirer.reverse("c10b", mti="0420") == "00"
    assert await acquirer.balance() == ("104.00", "0.00", "104.00")


async def test_case_26_reversal_of_a_presented_refund_debits_nothing(acquirer: Acquirer) -> None:
    await acquirer.authorize("7.00", "c26d", de3="200000")
    await acquirer.present("3.00", "c26d", refund=True)
    assert await acquirer.reverse("c26d") == "00"
    assert await acquirer.balance() == ("103.00", "0.00", "103.00")


async def test_case_39_advice_of_a_decline_that_was_reversed_holds_nothing(acquirer: Acquirer) -> None:
    assert await acquirer.authorize("500.00", "c39c") == "51"
    assert await acquirer.reverse("c39c") == "00"
    assert await acquirer.advise("500.00", "c39c") == "00"
    assert await acquirer.balance() == ("100.00", "0.00", "100.00")


async def test_case_16_advice_after_a_partial_capture_holds_the_rest(acquirer: Acquirer) -> None:
    await acquirer.authorize("60.00", "c16b")
    await acquirer.present("30.00", "c16b", final=False)
    assert await acquirer.advise("50.00", "c16b") == "00"
    assert await acquirer.balance() == ("70.00", "20.00", "50.00")


async def test_advice_shows_the_approval_code_of_the_network(acquirer: Acquirer) -> None:
    assert await acquirer.exchange(acquirer.message("0120", "3.00", "c39d", de39="00", de38="ABC123")) == "00"
    assert (await acquirer.transaction("c39d"))["network"]["approval_code"] == "ABC123"


async def test_case_27_verification_gets_85_without_a_hold(acquirer: Acquirer) -> None:
    assert await acquirer.authorize("0.00", "c27") == "85"
    assert await acquirer.balance() == ("100.00", "0.00", "100.00")
    transaction = await acquirer.transaction("c27")
    assert (transaction["kind"], transaction["hold_id"]) == ("verification", None)


async def test_case_28_other_currency_gets_12(acquirer: Acquirer) -> None:
    assert await acquirer.authorize("1.00", "c28", de49="840") == "12"
    assert await acquirer.exchange(acquirer.presentment("1.00", "c28") | {"49": "840"}) == "12"
    assert await acquirer.balance() == ("100.00", "0.00", "100.00")


async def test_case_29_amount_of_13_digits_fails_before_a_message(acquirer: Acquirer) -> None:
    record = await acquirer.caller.spend(acquirer.card, "10000000000.00")
    assert (record["state"], record["stan"], record["failure"]["stage"]) == ("failed", None, "pre_build")
    assert await acquirer.transactions() == []


async def test_case_30_and_31_day_caps_apply_to_new_spends(acquirer: Acquirer) -> None:
    card = f"/v1/cards/{acquirer.card['id']}"
    await acquirer.caller.patch(card, {"controls": [{"kind": "per_day_cap", "count": 2}]})
    assert [await acquirer.authorize("1.00") for _ in range(3)] == ["00", "00", "65"]
    await acquirer.caller.patch(card, {"controls": [{"kind": "per_day_cap", "count": 1}]})
    assert await acquirer.authorize("1.00") == "65"
    assert await acquirer.balance() == ("100.00", "2.00", "98.00")


async def test_case_32_acknowledged_change_applies_to_the_next_spend(acquirer: Acquirer) -> None:
    card = f"/v1/cards/{acquirer.card['id']}"
    for _ in range(5):
        await acquirer.caller.patch(card, {"controls": [{"kind": "mcc_deny", "values": ["5411"]}]})
        assert await acquirer.authorize("1.00") == "57"
        await acquirer.caller.patch(card, {"controls": []})
        assert await acquirer.authorize("1.00") == "00"


async def test_case_33_capture_on_a_suspended_card_posts(acquirer: Acquirer) -> None:
    await acquirer.authorize("10.00", "c33")
    await acquirer.caller.patch(f"/v1/cards/{acquirer.card['id']}", {"state": "suspended"})
    assert await acquirer.authorize("1.00") == "62"
    assert await acquirer.present("10.00", "c33") == "00"
    assert await acquirer.balance() == ("90.00", "0.00", "90.00")


async def test_case_39_advice_of_a_declined_sale_creates_a_hold(acquirer: Acquirer) -> None:
    assert await acquirer.authorize("150.00", "c39") == "51"
    assert await acquirer.advise("150.00", "c39") == "00"
    assert await acquirer.balance() == ("100.00", "150.00", "-50.00")
    assert (await acquirer.transaction("c39"))["status"] == "pending"


async def test_case_39_advice_of_an_unknown_sale_creates_a_hold(acquirer: Acquirer) -> None:
    assert await acquirer.advise("30.00", "c39b") == "00"
    assert await acquirer.balance() == ("100.00", "30.00", "70.00")
    assert (await acquirer.transaction("c39b"))["decided_by"] == "network_stand_in"


@pytest.mark.parametrize("reversed_", [False, True], ids=["not reversed", "reversed"])
@pytest.mark.parametrize("order", list(permutations(("0100", "late reversal", "0120"))), ids=", ".join)
async def test_case_39_advice_holds_its_amount_in_any_order_with_a_late_reversal(
    acquirer: Acquirer, order: tuple[str, ...], reversed_: bool
) -> None:
    """The approval was late for the network, which approved in stand-in and may reverse that later."""
    sale = f"late-{'-'.join(order)}-{reversed_}"
    request = acquirer.message("0100", "10.00", sale)
    named = {
        "de90": "0100" + request["11"] + request["7"] + "515151".zfill(11) + "0" * 11,
        "de37": request["37"],
    }
    for step in order:
        if step == "late reversal":
            await reverse_late(acquirer, request)
        elif step == "0120":
            assert (
                await acquirer.exchange(acquirer.message("0120", "12.00", sale, t11="1", de39="00", **named))
                == "00"
            )
        else:
            await acquirer.exchange(request)
    assert await acquirer.balance() == ("100.00", "12.00", "88.00")
    if reversed_:
        assert await acquirer.exchange(acquirer.message("0420", "12.00", sale, **named)) == "00"
        assert await acquirer.balance() == ("100.00", "0.00", "100.00")


async def test_case_40_repeat_after_an_owner_change_gets_the_stored_answer(acquirer: Acquirer) -> None:
    request = acquirer.message("0100", "10.00", "c40")
    acquirer.network.send(request)
    first = await acquirer.network.receive_bytes()
    await acquirer.installation.replace_host()
    acquirer.network.send(request | {"t": "0101"})
    assert await acquirer.network.receive_bytes() == first
    assert await acquirer.balance() == ("100.00", "10.00", "90.00")


async def test_case_41_answer_leaves_after_the_commit(acquirer: Acquirer) -> None:
    assert await acquirer.authorize("1.00") == "00"
    blocker = await asyncpg.connect(acquirer.installation.services.settings.database_dsn)
    async with blocker.transaction():
        await blocker.execute("LOCK TABLE journal_rows IN SHARE MODE")
        acquirer.network.send(acquirer.message("0100", "10.00", "c41"))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await acquirer.network.reader.readexactly(1)
    await blocker.close()
    assert (await acquirer.network.receive())["39"] == "00"


async def reverse_late(acquirer: Acquirer, request: Document) -> None:
    """Submit the late reversal of ``request``, as an edge does."""
    identity = WireIdentity(request["32"], request["11"], request["7"], request["37"])
    reversed_key = command_key(identity, AUTHORIZATION)
    pool, card = acquirer.installation.services.pool, acquirer.card["id"]
    journaled = await pool.fetchval(
        "SELECT command::json ->> 'id' FROM journal WHERE actor_id = $1 AND command_key = $2",
        card,
        reversed_key,
    )
    reversal = Reverse(
        id=derive(journaled or new_id_beside(card), Derived.LATE_REVERSAL),
        command_key=late_reversal_key(reversed_key),
        card_id=card,
        fingerprint=late_reversal_key(reversed_key),
        wire=identity,
        references=(reference_of_message(reversed_key),),
        late=True,
    )
    reply = await acquirer.installation.services.owners.submit(reversal)
    assert isinstance(reply, WireAnswer)
    assert reply.response_code == "00"


async def lapse(acquirer: Acquirer, sale: str) -> None:
    """Let the hold of ``sale`` expire."""
    transaction = await acquirer.transaction(sale)
    services = acquirer.installation.services
    card = acquirer.card["id"]
    tenant = await services.pool.fetchval("SELECT tenant_id::text FROM cards WHERE id = $1", card)
    expire = Expire(
        id=new_id_beside(card),
        command_key=os.urandom(16),
        card_id=card,
        tenant_id=tenant,
        references=(reference_of_id(transaction["id"]),),
    )
    reply = await services.owners.submit(expire)
    assert isinstance(reply, Done), reply
