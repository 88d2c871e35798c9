"""Transactions after their decision: follow-ups in ``events``, amounts, status, and replay of the
decision."""

from __future__ import annotations

import asyncio
from typing import Any

import asyncpg

from actors.ids import new_id, new_id_beside
from engine.commands import (
    Advise,
    Authorize,
    Command,
    Expire,
    Present,
    Reverse,
    WireIdentity,
    reference_of_id,
)
from engine.ids import key_of
from tests.support.actors.journal.in_full import STORE_IN_FULL
from tests.support.api.driver import Caller
from tests.support.api.stack import Installation

WIRE = WireIdentity("424242", "000001", "1121103000", "632510000001", "SN-later")


def later(kind: type[Any], card: Any, about: str | None = None, **parts: Any) -> Any:
    """A follow-up command of ``kind`` for the transaction ``about``, as the edge creates it."""
    id_ = new_id_beside(card["id"])
    shared: dict[str, Any] = {"id": id_, "command_key": key_of(id_), "card_id": card["id"]}
    if kind is not Expire:
        shared |= {"fingerprint": key_of(id_), "wire": WIRE}
    if about is not None:
        shared["references"] = (reference_of_id(about),)
    purchase = {
        "amount_minor": 1_00,
        "currency": "EUR",
        "mcc": "5411",
        "merchant_name": "Corner Shop",
        "merchant_country": "IE",
    }
    if kind is Present:
        shared |= purchase | {"kind": "purchase", "arn": None, "sequence": 1}
    elif kind in {Advise, Authorize}:
        shared |= purchase | {"channel": "pos"}
    return kind(**({"references": ()} | shared | parts))


async def tell(running: Installation, *commands: Command) -> None:
    for command in commands:
        await running.services.owners.submit(command)


def told(transaction: Any) -> list[tuple[str, ...]]:
    return [
        (event["type"], event["amount"], *([event["remark"]] if "remark" in event else []))
        for event in transaction["events"]
    ]


async def test_events_list_every_follow_up_in_order(running: Installation, acme: Caller) -> None:
    card = await acme.funded_card("100.00")
    id_ = (await acme.spend(card, "40.00"))["transaction_id"]
    await tell(
        running,
        later(Authorize, card, id_, amount_minor=20_00),
        later(Authorize, card, id_, amount_minor=90_00),
        later(Reverse, card, id_, remaining_minor=50_00),
        later(Present, card, id_, amount_minor=30_00, final=False),
    )
    transaction = await acme.get(f"/v1/transactions/{id_}")
    assert told(transaction) == [
        ("authorization", "40.00"),
        ("increment", "20.00"),
        ("increment", "90.00", "declined"),
        ("reversal", "10.00"),
        ("clearing", "30.00"),
    ]
    moments = [event["occurred_at"] for event in transaction["events"]]
    assert moments == sorted(moments)
    assert transaction["updated_at"] == moments[-1] > transaction["created_at"] == moments[0]
    amounts = {name: transaction[f"{name}_amount"] for name in ("requested", "approved", "held", "cleared")}
    assert amounts == {"requested": "40.00", "approved": "60.00", "held": "20.00", "cleared": "30.00"}
    assert (transaction["status"], transaction["reversed_amount"]) == ("partially_cleared", "10.00")
    assert (await acme.get("/v1/transactions?status=partially_cleared"))["data"] == [transaction]


async def test_follow_ups_after_a_reversal_carry_a_remark(running: Installation, acme: Caller) -> None:
    card = await acme.funded_card("100.00")
    id_ = (await acme.spend(card, "40.00"))["transaction_id"]
    await tell(
        running,
        later(Reverse, card, id_),
        later(Reverse, card, id_),
        later(Present, card, id_, amount_minor=40_00),
    )
    transaction = await acme.get(f"/v1/transactions/{id_}")
    assert told(transaction)[1:] == [
        ("reversal", "40.00"),
        ("reversal", "0.00", "nothing_held"),
        ("clearing", "40.00", "late"),
    ]
    assert transaction["status"] == "cleared"


async def test_expire_command_lapses_the_hold(running: Installation, acme: Caller) -> None:
    card = await acme.funded_card("100.00")
    id_ = (await acme.spend(card, "40.00"))["transaction_id"]
    await tell(running, later(Expire, card, id_))
    transaction = await acme.get(f"/v1/transactions/{id_}")
    assert told(transaction)[1:] == [("lapse", "40.00")]
    assert (transaction["status"], transaction["held_amount"]) == ("lapsed", "0.00")


async def test_expired_hold_reads_as_lapsed_before_the_sweep(running: Installation, acme: Caller) -> None:
    card = await acme.funded_card("100.00")
    id_ = (await acme.spend(card, "40.00"))["transaction_id"]
    connection = await asyncpg.connect(running.services.settings.database_dsn)
    try:
        # Changed in the database only: the shard host does not know the new expiry and cannot sweep the hold.
        past = "UPDATE holds SET expires_at = now() WHERE authorization_id = $1::uuid"
        await connection.execute(past, id_)
    finally:
        await connection.close()
    transaction = await acme.get(f"/v1/transactions/{id_}")
    assert (transaction["status"], transaction["held_amount"]) == ("lapsed", "0.00")
    assert told(transaction)[1:] == [("lapse", "40.00")]
    assert transaction["updated_at"] == transaction["events"][-1]["occurred_at"]
    assert (await acme.get("/v1/transactions?status=lapsed"))["data"] == [transaction]
    assert (await acme.get("/v1/transactions?status=pending"))["data"] == []


async def test_force_post_has_no_decision(running: Installation, acme: Caller) -> None:
    card = await acme.funded_card("5.00")
    post = later(Present, card, amount_minor=7_00)
    await tell(running, post)
    transaction = await acme.get(f"/v1/transactions/{post.id}")
    assert (transaction["kind"], transaction["status"]) == ("force_post", "posted")
    assert told(transaction) == [("force_post", "7.00")]
    assert transaction["network"]["rrn"] == WIRE.rrn
    for name in ("decision", "decline_reason", "decided_by", "risk", "channel", "entry_mode", "hold_id"):
        assert transaction[name] is None
    assert transaction["trace"] == []
    refused = await acme.post(f"/v1/transactions/{post.id}/replay", status=409)
    assert refused["type"] == "/problems/nothing-decided"


async def test_lapse_before_an_increment_stays_in_the_history(running: Installation, acme: Caller) -> None:
    """The hold lapses by time, by command and by time again; the history lists each lapse once."""
    card = await acme.funded_card("100.00")
    id_ = (await acme.spend(card, "40.00"))["transaction_id"]
    await let_time_pass(running, id_)
    await tell(running, later(Authorize, card, id_, amount_minor=5_00))
    await tell(running, later(Expire, card, id_))
    await tell(running, later(Authorize, card, id_, amount_minor=6_00))
    await let_time_pass(running, id_)
    await tell(running, later(Authorize, card, id_, amount_minor=7_00))
    transaction = await acme.get(f"/v1/transactions/{id_}")
    assert (transaction["status"], transaction["held_amount"]) == ("pending", "58.00")
    assert sorted(told(transaction)) == sorted(
        [
            ("authorization", "40.00"),
            ("lapse", "40.00"),
            ("increment", "5.00"),
            ("lapse", "45.00"),
            ("increment", "6.00"),
            ("lapse", "51.00"),
            ("increment", "7.00"),
        ]
    )
    assert (await acme.get("/v1/transactions"))["data"] == [transaction]
    again = await acme.post(f"/v1/transactions/{id_}/replay", status=200)
    assert again["identical"] is True
    assert [each["recorded"]["approved_amount"] for each in again["increments"]] == ["5.00", "6.00", "7.00"]


async def let_time_pass(running: Installation, id_: str) -> None:
    """Expire the hold of a transaction, and replace the shard host so that it reads the new expiry."""
    expire = (
        "UPDATE holds SET expires_at = now() - interval '1 second' WHERE authorization_id = $1::text::uuid"
    )
    connection = await asyncpg.connect(running.services.settings.database_dsn)
    try:
        await connection.execute(f"{expire} AND state = 'held'", id_)
    finally:
        await connection.close()
    await running.replace_host()


async def test_advice_records_the_decision_of_the_network(running: Installation, acme: Caller) -> None:
    card = await acme.funded_card("5.00")
    yes, no = later(Advise, card, amount_minor=7_00), later(Advise, card, approved=False)
    await tell(running, yes, no)
    approved, declined = [await acme.get(f"/v1/transactions/{each.id}") for each in (yes, no)]
    assert (approved["decision"], approved["decided_by"], approved["held_amount"]) == (
        "approved",
        "network_stand_in",
        "7.00",
    )
    assert (declined["decision"], declined["decline_reason"]) == ("declined", "stand_in_declined")
    assert told(approved) == [("advice", "7.00")]


async def test_replay_gives_the_recorded_decision(running: Installation, acme: Caller) -> None:
    controls = [{"kind": "per_day_amount_cap", "amount": "80.00"}, {"kind": "mcc_deny", "values": ["7995"]}]
    card = await acme.funded_card("100.00", controls=controls)
    spends = [
        await acme.spend(card, "30.00"),
        await acme.spend(card, "5.00", mcc="7995"),
        await acme.spend(card, "0"),
        await acme.spend(card, "3.00", kind="refund"),
    ]
    for spend in spends:
        transaction = await acme.get(f"/v1/transactions/{spend['transaction_id']}")
        again = await acme.post(f"/v1/transactions/{spend['transaction_id']}/replay", status=200)
        assert again["identical"] is True
        assert again["recorded"] == again["recomputed"]
        for name in ("decision", "decline_reason", "trace", "risk", "decided_by", "approved_amount"):
            assert again["recomputed"][name] == transaction[name]
    assert (await acme.get("/v1/transactions"))["data"][0] == transaction


async def test_replay_detects_an_altered_record(running: Installation, acme: Caller) -> None:
    card = await acme.funded_card("100.00")
    id_ = (await acme.spend(card, "30.00"))["transaction_id"]
    connection = await asyncpg.connect(running.services.settings.database_dsn)
    try:
        altered = """
            UPDATE journal_rows SET decision = replace(decision, '"approved"', '"declined"')
            WHERE authorization_id = $1::uuid AND kind = $2
        """
        await tell(running, later(Authorize, card, id_, amount_minor=5_00))
        # A trigger makes the journal append-only; it does not fire in a session with the role of a replica.
        await connection.execute("SET session_replication_role = replica")
        await connection.execute(STORE_IN_FULL)
        await connection.execute(altered, id_, "increment")
        once = await acme.post(f"/v1/transactions/{id_}/replay", status=200)
        await connection.execute(altered, id_, "authorize")
    finally:
        await connection.close()
    assert once["identical"] is False
    assert once["recorded"] == once["recomputed"]
    assert [each["identical"] for each in once["increments"]] == [False]
    again = await acme.post(f"/v1/transactions/{id_}/replay", status=200)
    assert again["identical"] is False
    assert (again["recorded"]["decision"], again["recomputed"]["decision"]) == ("declined", "approved")


async def test_repeated_replay_returns_the_stored_answer(acme: Caller) -> None:
    card = await acme.funded_card("100.00")
    path = f"/v1/transactions/{(await acme.spend(card, '1.00'))['transaction_id']}/replay"
    answers = await asyncio.gather(*(acme.send("POST", path, key="the-same") for _ in range(4)))
    assert {response.status_code for response in answers} <= {200, 409}
    first, second = [await acme.send("POST", path, key="the-same") for _ in range(2)]
    assert first.content == second.content
    assert second.headers["Idempotent-Replayed"] == "true"
    assert (await acme.send("POST", path, key=None)).status_code == 400
    unknown = await acme.send("POST", f"/v1/transactions/{new_id()}/replay")
    assert unknown.status_code == 404
