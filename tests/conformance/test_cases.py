"""The cases real networks produce, each on the real path: wire in, journal, balance, transaction, events out.

The numbers are those of the table in ``ops/docs/WIRE.md``. Cases 34 to 38 need a programme that decides
itself: they are in ``test_stand_in.py``; 42 needs a second owner: it is in ``tests/actors/shards``.
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
from actors.vault import Vault
from engine.commands import Expire, Reverse, WireIdentity, reference_of_id, reference_of_message
from engine.ids import Derived, derive
from engine.iso8583.identity import AUTHORIZATION, command_key, late_reversal_key
from engine.replies import Done, WireAnswer
from ops.audit import audit
from ops.embedded.ports import free_port
from tests.api.stack import Installation, installation
from tests.conformance.desk import Desk, plain_number
from tests.conformance.peer import Document, Network
from tests.conftest import PostgresServer, execute

pytestmark = pytest.mark.asyncio(loop_scope="module")
_tenants = count(1)


@pytest.fixture(scope="module")
def module_settings(
    postgres_server: PostgresServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Settings]:
    name = "stanchion_test_cases"
    execute(postgres_server.admin_url, f"CREATE DATABASE {name} TEMPLATE {postgres_server.template}")
    yield Settings.load(
        var_dir=tmp_path_factory.mktemp("cases"),
        database_url=postgres_server.database(name),
        iso8583_port=free_port(),
        auto_clear_seconds=0,
    )
    execute(postgres_server.admin_url, f"DROP DATABASE {name} WITH (FORCE)")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def running(module_settings: Settings) -> AsyncIterator[Installation]:
    async with installation(module_settings, Vault.from_settings(module_settings)) as started:
        yield started
    broken = [str(finding) for finding in await audit(module_settings.database_dsn) if finding.broken]
    assert not broken


@pytest_asyncio.fixture(loop_scope="module")
async def desk(running: Installation) -> AsyncIterator[Desk]:
    """A card with 100.00 EUR of a tenant of its own."""
    caller = await running.caller(f"tenant-{next(_tenants)}")
    card = await caller.funded_card("100.00")
    settings = running.services.settings
    async with await Network.connect((settings.iso8583_host, settings.iso8583_port)) as network:
        yield Desk(running, caller, card, await plain_number(running, card["id"]), network)


LOADED = ["ledger.entry.posted"]
HELD = [*LOADED, "authorization.decided", "ledger.hold.created"]
"""Events of one command share their instant: their order says nothing, so they are compared as counts."""


async def test_case_01_a_repeat_gets_the_stored_answer(desk: Desk) -> None:
    request = desk.say("0100", "10.00", "c1")
    desk.network.send(request)
    first = await desk.network.receive_bytes()
    for mti in ("0100", "0101"):
        desk.network.send(request | {"t": mti})
        assert await desk.network.receive_bytes() == first
    assert await desk.balance() == ("100.00", "10.00", "90.00")
    assert await desk.events() == Counter(HELD)


@pytest.mark.parametrize("change", [{"4": "000000000999"}, {"18": "7995"}])
async def test_case_02_the_same_identity_with_other_content(desk: Desk, change: dict[str, str]) -> None:
    request = desk.say("0100", "10.00", "c2")
    assert await desk.ask(request) == "00"
    assert await desk.ask(request | change) == "94"
    assert await desk.balance() == ("100.00", "10.00", "90.00")
    assert len(await desk.transactions()) == 1


async def test_case_03_duplicates_of_an_undecided_request_get_one_answer(desk: Desk) -> None:
    request = desk.say("0100", "10.00", "c3")
    for _ in range(3):
        desk.network.send(request)
    assert len({await desk.network.receive_bytes() for _ in range(3)}) == 1
    assert await desk.balance() == ("100.00", "10.00", "90.00")


async def test_case_04_a_reused_stan_is_a_new_transaction(desk: Desk) -> None:
    request = desk.say("0100", "10.00", "c4")
    assert await desk.ask(request) == "00"
    next_day = request | {"7": "0101000000", "37": "7001" + request["37"][4:]}
    assert await desk.ask(next_day) == "00"
    assert await desk.balance() == ("100.00", "20.00", "80.00")


async def test_case_05_a_reversal_before_its_original(desk: Desk) -> None:
    request = desk.say("0100", "10.00")
    original = "0100" + request["11"] + request["7"] + "515151".zfill(11) + "0" * 11
    assert await desk.ask(desk.say("0420", "10.00", de90=original, de37=request["37"])) == "00"
    await desk.ask(request)
    assert await desk.balance() == ("100.00", "0.00", "100.00")


async def test_case_06_a_reversal_of_an_unknown_original(desk: Desk) -> None:
    assert await desk.reverse("c6") == "00"
    await desk.authorize("10.00", "c6")
    assert await desk.balance() == ("100.00", "0.00", "100.00")
    assert (await desk.transaction("c6"))["status"] == "reversed"


async def test_case_07_a_reversal_twice(desk: Desk) -> None:
    await desk.authorize("10.00", "c7")
    request = desk.say("0400", "10.00", "c7")
    desk.network.send(request)
    first = await desk.network.receive_bytes()
    desk.network.send(request | {"t": "0401"})
    assert await desk.network.receive_bytes() == first
    assert await desk.reverse("c7", mti="0420") == "00"
    assert await desk.balance() == ("100.00", "0.00", "100.00")
    assert await desk.events() == Counter([*HELD, "ledger.hold.released"])


async def test_case_08_a_reversal_advice_wins_over_our_answer(desk: Desk) -> None:
    request = desk.say("0100", "10.00", "c8")
    original = "0100" + request["11"] + request["7"] + "515151".zfill(11) + "0" * 11
    advice = desk.say("0420", "10.00", "c8", de90=original, de37=request["37"])
    await desk.ask_all(request, advice)
    assert await desk.balance() == ("100.00", "0.00", "100.00")


async def test_case_09_a_partial_reversal(desk: Desk) -> None:
    await desk.authorize("10.00", "c9")
    assert await desk.reverse("c9", remaining="4.00") == "00"
    assert await desk.balance() == ("100.00", "4.00", "96.00")
    assert await desk.events() == Counter(HELD)
    transaction = await desk.transaction("c9")
    assert (transaction["held_amount"], transaction["reversed_amount"]) == ("4.00", "6.00")


async def test_case_09_gives_the_days_amount_back(desk: Desk) -> None:
    controls = [{"kind": "per_day_amount_cap", "amount": "10.00"}]
    await desk.caller.patch(f"/v1/cards/{desk.card['id']}", {"controls": controls})
    assert await desk.authorize("10.00", "c9b") == "00"
    assert await desk.authorize("5.00") == "61"
    assert await desk.reverse("c9b", remaining="4.00") == "00"
    assert await desk.authorize("6.00") == "00"


async def test_case_10_a_reversal_after_the_capture(desk: Desk) -> None:
    await desk.authorize("10.00", "c10")
    await desk.present("10.00", "c10")
    assert await desk.reverse("c10") == "00"
    assert await desk.balance() == ("90.00", "0.00", "90.00")
    assert (await desk.transaction("c10"))["status"] == "cleared"


async def test_case_11_a_reversal_races_a_capture(desk: Desk) -> None:
    await desk.authorize("10.00", "c11")
    reversal = desk.say("0400", "10.00", "c11")
    assert await desk.ask_all(desk.presentment("10.00", "c11"), reversal) == ["00", "00"]
    assert await desk.balance() == ("90.00", "0.00", "90.00")


async def test_case_12_a_partial_capture_that_is_final(desk: Desk) -> None:
    await desk.authorize("10.00", "c12")
    assert await desk.present("6.00", "c12") == "00"
    assert await desk.balance() == ("94.00", "0.00", "94.00")
    assert await desk.events() == Counter([*HELD, "ledger.hold.captured"])
    transaction = await desk.transaction("c12")
    assert (transaction["status"], transaction["cleared_amount"]) == ("cleared", "6.00")


async def test_case_13_several_captures(desk: Desk) -> None:
    await desk.authorize("10.00", "c13")
    assert await desk.present("3.00", "c13", 1, final=False) == "00"
    assert await desk.balance() == ("97.00", "7.00", "90.00")
    assert (await desk.transaction("c13"))["status"] == "partially_cleared"
    assert await desk.present("4.00", "c13", 2, final=False) == "00"
    assert await desk.balance() == ("93.00", "3.00", "90.00")
    assert await desk.present("1.00", "c13", 3) == "00"
    assert await desk.balance() == ("92.00", "0.00", "92.00")


async def test_case_14_a_duplicate_presentment(desk: Desk) -> None:
    await desk.authorize("10.00", "c14")
    assert await desk.present("10.00", "c14") == "00"
    assert await desk.present("10.00", "c14") == "00"
    assert await desk.balance() == ("90.00", "0.00", "90.00")
    assert (await desk.events())["ledger.hold.captured"] == 1


async def test_case_15_an_over_capture(desk: Desk) -> None:
    controls = [{"kind": "per_txn_cap", "amount": "90.00"}]
    await desk.caller.patch(f"/v1/cards/{desk.card['id']}", {"controls": controls})
    await desk.authorize("90.00", "c15")
    assert await desk.present("120.00", "c15") == "00"
    assert await desk.balance() == ("-20.00", "0.00", "-20.00")


@pytest.mark.parametrize("amount", ["15.00", "4.00"])
async def test_case_16_an_advice_of_the_true_amount(desk: Desk, amount: str) -> None:
    await desk.authorize("10.00", "c16")
    assert await desk.advise(amount, "c16") == "00"
    _, held, _ = await desk.balance()
    assert held == amount


@pytest.mark.parametrize("ended", ["reversed", "lapsed"])
async def test_case_17_a_capture_of_what_is_no_longer_held(desk: Desk, ended: str) -> None:
    await desk.authorize("10.00", "c17")
    await (desk.reverse("c17") if ended == "reversed" else lapse(desk, "c17"))
    assert await desk.present("10.00", "c17") == "00"
    assert await desk.balance() == ("90.00", "0.00", "90.00")
    assert (await desk.transaction("c17"))["status"] == "cleared"


async def test_case_18_a_force_post(desk: Desk) -> None:
    controls = [{"kind": "per_day_amount_cap", "amount": "130.00"}]
    await desk.caller.patch(f"/v1/cards/{desk.card['id']}", {"controls": controls})
    assert await desk.present("120.00", "c18") == "00"
    assert await desk.balance() == ("-20.00", "0.00", "-20.00")
    await desk.caller.load(desk.card, "100.00")
    assert await desk.authorize("11.00") == "61"
    assert await desk.authorize("10.00") == "00"
    assert (await desk.transaction("c18"))["kind"] == "force_post"


async def test_case_19_an_increment_of_a_lapsed_hold(desk: Desk) -> None:
    await desk.authorize("60.00", "c19")
    await lapse(desk, "c19")
    assert await desk.balance() == ("100.00", "0.00", "100.00")
    assert await desk.increment("41.00", "c19") == "51"
    assert await desk.increment("40.00", "c19") == "00"
    assert await desk.balance() == ("100.00", "100.00", "0.00")


async def test_case_20_an_increment_after_a_partial_capture(desk: Desk) -> None:
    await desk.authorize("10.00", "c20")
    await desk.present("4.00", "c20", final=False)
    assert await desk.increment("5.00", "c20") == "00"
    assert await desk.balance() == ("96.00", "11.00", "85.00")


@pytest.mark.parametrize("closed", [False, True])
async def test_case_21_an_increment_without_an_open_original(desk: Desk, closed: bool) -> None:
    if closed:
        await desk.authorize("10.00", "c21")
        await desk.reverse("c21")
    assert await desk.increment("5.00", "c21") == "00"
    assert await desk.balance() == ("100.00", "5.00", "95.00")
    assert len(await desk.transactions()) == 1 + closed


async def test_case_22_increments_in_parallel(desk: Desk) -> None:
    await desk.authorize("70.00", "c22")
    increments = [desk.say("0100", "10.00", "c22", t06="INC") for _ in range(5)]
    assert sorted(await desk.ask_all(*increments)) == ["00", "00", "00", "51", "51"]
    assert await desk.balance() == ("100.00", "100.00", "0.00")
    assert (await desk.events())["ledger.hold.created"] == 1


async def test_case_23_a_declined_increment(desk: Desk) -> None:
    await desk.authorize("10.00", "c23")
    before = await desk.transaction("c23")
    assert await desk.increment("91.00", "c23") == "51"
    after = await desk.transaction("c23")
    unchanged = ("status", "approved_amount", "held_amount", "hold_id", "decision")
    assert [after[name] for name in unchanged] == [before[name] for name in unchanged]


async def test_case_22_an_increment_is_taken_back_by_itself(desk: Desk) -> None:
    await desk.authorize("10.00", "c22b")
    increment = desk.say("0100", "5.00", "c22b", t06="INC")
    assert await desk.ask(increment) == "00"
    named = "0100" + increment["11"] + increment["7"] + "515151".zfill(11) + "0" * 11
    for mti in ("0400", "0420"):
        reversal = desk.say(mti, "5.00", "c22b", de90=named, de37=increment["37"])
        assert await desk.ask(reversal) == "00"
        assert await desk.balance() == ("100.00", "10.00", "90.00")
    assert await desk.reverse("c22b") == "00"
    assert await desk.balance() == ("100.00", "0.00", "100.00")


async def test_case_5_an_increment_that_was_given_up_before_it_came(desk: Desk) -> None:
    await desk.authorize("10.00", "S1")
    raised = desk.say("0100", "5.00", "S1", t06="INC")
    named = f"0100{raised['11']}{raised['7']}{raised['32'].zfill(11)}{'0' * 11}"
    assert await desk.ask(desk.say("0400", "5.00", de90=named)) == "00"
    assert await desk.ask(raised) == "00"
    shown = await desk.transaction("S1")
    figures = [shown[f"{name}_amount"] for name in ("approved", "held", "reversed")]
    assert (shown["status"], figures) == ("pending", ["15.00", "10.00", "5.00"])


async def test_case_24_a_partial_approval(desk: Desk) -> None:
    controls = [{"kind": "per_day_amount_cap", "amount": "250.00"}]
    await desk.caller.patch(f"/v1/cards/{desk.card['id']}", {"controls": controls})
    assert await desk.authorize("120.00", "c24") == "51"
    answer = await desk.network.ask(desk.say("0100", "120.00", "c24b", t07="1"))
    assert (answer["39"], answer["4"]) == ("10", "000000010000")
    assert "000000012000" in answer["54"]
    await desk.caller.load(desk.card, "200.00")
    assert await desk.authorize("150.00") == "00"


async def test_case_25_a_refund_without_a_purchase(desk: Desk) -> None:
    await desk.caller.patch(f"/v1/cards/{desk.card['id']}", {"state": "suspended"})
    assert await desk.authorize("5.00", "c25", de3="200000") == "00"
    assert await desk.balance() == ("105.00", "0.00", "105.00")
    assert await desk.events() == Counter([*LOADED, "authorization.decided", "ledger.entry.posted"])


async def test_case_26_a_refund_that_is_presented_later(desk: Desk) -> None:
    await desk.authorize("5.00", "c26", de3="200000")
    assert await desk.present("5.00", "c26", refund=True) == "00"
    assert await desk.balance() == ("105.00", "0.00", "105.00")
    assert await desk.present("7.00", "c26b", refund=True) == "00"
    assert await desk.balance() == ("112.00", "0.00", "112.00")


async def test_case_26_every_partial_refund_is_credited(desk: Desk) -> None:
    await desk.authorize("60.00", "c26c")
    assert await desk.present("60.00", "c26c") == "00"
    for arn in ("1", "2", "2"):
        assert await desk.present("10.00", "c26c", arn=arn.zfill(23), refund=True) == "00"
    assert await desk.balance() == ("60.00", "0.00", "60.00")


async def test_case_13_capture_after_a_refund_draws_on_the_hold(desk: Desk) -> None:
    await desk.authorize("60.00", "c13b")
    await desk.present("30.00", "c13b", final=False)
    await desk.present("10.00", "c13b", 2, refund=True)
    assert await desk.present("30.00", "c13b", 3) == "00"
    assert await desk.balance() == ("50.00", "0.00", "50.00")
    assert {each["kind"] for each in await desk.transactions()} == {"purchase", "refund"}


async def test_case_09_partial_reversal_of_a_refund(desk: Desk) -> None:
    await desk.authorize("7.00", "c9c", de3="200000")
    assert await desk.reverse("c9c", remaining="3.00") == "00"
    assert await desk.balance() == ("103.00", "0.00", "103.00")


async def test_case_10_late_reversal_does_not_debit_the_refund(desk: Desk) -> None:
    await desk.authorize("10.00", "c10b")
    await desk.authorize("4.00", "c10b", de3="200000")
    assert await desk.reverse("c10b", mti="0420") == "00"
    assert await desk.balance() == ("104.00", "0.00", "104.00")


async def test_case_26_reversal_of_a_presented_refund_debits_nothing(desk: Desk) -> None:
    await desk.authorize("7.00", "c26d", de3="200000")
    await desk.present("3.00", "c26d", refund=True)
    assert await desk.reverse("c26d") == "00"
    assert await desk.balance() == ("103.00", "0.00", "103.00")


async def test_case_39_advice_of_a_decline_that_was_reversed_holds_nothing(desk: Desk) -> None:
    assert await desk.authorize("500.00", "c39c") == "51"
    assert await desk.reverse("c39c") == "00"
    assert await desk.advise("500.00", "c39c") == "00"
    assert await desk.balance() == ("100.00", "0.00", "100.00")


async def test_case_16_advice_after_a_partial_capture_holds_the_rest(desk: Desk) -> None:
    await desk.authorize("60.00", "c16b")
    await desk.present("30.00", "c16b", final=False)
    assert await desk.advise("50.00", "c16b") == "00"
    assert await desk.balance() == ("70.00", "20.00", "50.00")


async def test_advice_shows_the_approval_code_of_the_network(desk: Desk) -> None:
    assert await desk.ask(desk.say("0120", "3.00", "c39d", de39="00", de38="ABC123")) == "00"
    assert (await desk.transaction("c39d"))["network"]["approval_code"] == "ABC123"


async def test_case_27_an_account_verification(desk: Desk) -> None:
    assert await desk.authorize("0.00", "c27") == "85"
    assert await desk.balance() == ("100.00", "0.00", "100.00")
    transaction = await desk.transaction("c27")
    assert (transaction["kind"], transaction["hold_id"]) == ("verification", None)


async def test_case_28_another_currency(desk: Desk) -> None:
    assert await desk.authorize("1.00", "c28", de49="840") == "12"
    assert await desk.ask(desk.presentment("1.00", "c28") | {"49": "840"}) == "12"
    assert await desk.balance() == ("100.00", "0.00", "100.00")


async def test_case_29_an_amount_that_does_not_fit(desk: Desk) -> None:
    record = await desk.caller.spend(desk.card, "10000000000.00")
    assert (record["state"], record["stan"], record["failure"]["stage"]) == ("failed", None, "pre_build")
    assert await desk.transactions() == []


async def test_case_30_and_31_day_caps(desk: Desk) -> None:
    card = f"/v1/cards/{desk.card['id']}"
    await desk.caller.patch(card, {"controls": [{"kind": "per_day_cap", "count": 2}]})
    assert [await desk.authorize("1.00") for _ in range(3)] == ["00", "00", "65"]
    await desk.caller.patch(card, {"controls": [{"kind": "per_day_cap", "count": 1}]})
    assert await desk.authorize("1.00") == "65"
    assert await desk.balance() == ("100.00", "2.00", "98.00")


async def test_case_32_a_change_that_was_acknowledged_decides(desk: Desk) -> None:
    card = f"/v1/cards/{desk.card['id']}"
    for _ in range(5):
        await desk.caller.patch(card, {"controls": [{"kind": "mcc_deny", "values": ["5411"]}]})
        assert await desk.authorize("1.00") == "57"
        await desk.caller.patch(card, {"controls": []})
        assert await desk.authorize("1.00") == "00"


async def test_case_33_a_suspended_card_still_pays_what_was_approved(desk: Desk) -> None:
    await desk.authorize("10.00", "c33")
    await desk.caller.patch(f"/v1/cards/{desk.card['id']}", {"state": "suspended"})
    assert await desk.authorize("1.00") == "62"
    assert await desk.present("10.00", "c33") == "00"
    assert await desk.balance() == ("90.00", "0.00", "90.00")


async def test_case_39_an_advice_of_what_we_declined(desk: Desk) -> None:
    assert await desk.authorize("150.00", "c39") == "51"
    assert await desk.advise("150.00", "c39") == "00"
    assert await desk.balance() == ("100.00", "150.00", "-50.00")
    assert (await desk.transaction("c39"))["status"] == "pending"


async def test_case_39_an_advice_of_what_we_never_saw(desk: Desk) -> None:
    assert await desk.advise("30.00", "c39b") == "00"
    assert await desk.balance() == ("100.00", "30.00", "70.00")
    assert (await desk.transaction("c39b"))["decided_by"] == "network_stand_in"


@pytest.mark.parametrize("reversed_", [False, True], ids=["not reversed", "reversed"])
@pytest.mark.parametrize("order", list(permutations(("0100", "undo", "0120"))), ids=" ".join)
async def test_case_39_an_advice_beside_a_late_reversal_of_our_own(
    desk: Desk, order: tuple[str, ...], reversed_: bool
) -> None:
    """The network never got our approval and told the merchant yes; it may reverse that afterwards."""
    sale = f"late-{'-'.join(order)}-{reversed_}"
    request = desk.say("0100", "10.00", sale)
    named = {
        "de90": "0100" + request["11"] + request["7"] + "515151".zfill(11) + "0" * 11,
        "de37": request["37"],
    }
    for step in order:
        if step == "undo":
            await undo(desk, request)
        elif step == "0120":
            assert await desk.ask(desk.say("0120", "12.00", sale, t11="1", de39="00", **named)) == "00"
        else:
            await desk.ask(request)
    assert await desk.balance() == ("100.00", "12.00", "88.00")
    if reversed_:
        assert await desk.ask(desk.say("0420", "12.00", sale, **named)) == "00"
        assert await desk.balance() == ("100.00", "0.00", "100.00")


async def test_case_40_the_answer_survives_its_owner(desk: Desk) -> None:
    request = desk.say("0100", "10.00", "c40")
    desk.network.send(request)
    first = await desk.network.receive_bytes()
    await desk.installation.replace_host()
    desk.network.send(request | {"t": "0101"})
    assert await desk.network.receive_bytes() == first
    assert await desk.balance() == ("100.00", "10.00", "90.00")


async def test_case_41_no_answer_before_the_commit(desk: Desk) -> None:
    assert await desk.authorize("1.00") == "00"
    blocker = await asyncpg.connect(desk.installation.services.settings.database_dsn)
    async with blocker.transaction():
        await blocker.execute("LOCK TABLE journal IN SHARE MODE")
        desk.network.send(desk.say("0100", "10.00", "c41"))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await desk.network.reader.readexactly(1)
    await blocker.close()
    assert (await desk.network.receive())["39"] == "00"


async def undo(desk: Desk, request: Document) -> None:
    """The reversal that an edge sends when its answer to ``request`` came too late."""
    identity = WireIdentity(request["32"], request["11"], request["7"], request["37"])
    undone = command_key(identity, AUTHORIZATION)
    pool, card = desk.installation.services.pool, desk.card["id"]
    journaled = await pool.fetchval(
        "SELECT command::json ->> 'id' FROM journal WHERE actor_id = $1 AND command_key = $2", card, undone
    )
    reversal = Reverse(
        id=derive(journaled or new_id_beside(card), Derived.UNDO),
        command_key=late_reversal_key(undone),
        card_id=card,
        fingerprint=late_reversal_key(undone),
        wire=identity,
        references=(reference_of_message(undone),),
        late=True,
    )
    reply = await desk.installation.services.owners.submit(reversal)
    assert isinstance(reply, WireAnswer)
    assert reply.response_code == "00"


async def lapse(desk: Desk, sale: str) -> None:
    """Let the hold of ``sale`` end by time."""
    transaction = await desk.transaction(sale)
    services = desk.installation.services
    card = desk.card["id"]
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
