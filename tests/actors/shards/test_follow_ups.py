"""Follow-ups find their original in memory, in an open commit, in the journal, or before it arrives."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from engine.commands import (
    Authorize,
    Present,
    Reverse,
    reference_of_id,
    reference_of_message,
    reference_of_network,
)
from engine.limits import KNOWN_REFERENCES_MAX
from engine.replies import Done, WireAnswer
from tests.support.actors.shards.support import ALL_SHARDS, FIRST, Cluster, TestHost, approved, idle, turns
from tests.support.engine.build import an_id, authorize, key, read_balance, wire

NETWORK_ID = "NTX42"


def spend(number: int = 1, **parts: Any) -> Authorize:
    about = {"card_id": FIRST.id, "wire": wire(number, network_txn_id=NETWORK_ID if number == 1 else None)}
    return authorize(number, **about | parts)


def reversal(*references: str, number: int = 500, **parts: Any) -> Reverse:
    return Reverse(
        id=an_id(0x80_0000 + number),
        command_key=key(number),
        card_id=FIRST.id,
        fingerprint=key(number),
        wire=wire(number),
        references=references,
        **parts,
    )


def presentment(*references: str, number: int = 600, amount_minor: int = 1_000) -> Present:
    return Present(
        id=an_id(0x80_0000 + number),
        command_key=key(number),
        card_id=FIRST.id,
        fingerprint=key(number),
        wire=wire(number),
        references=references,
        kind="purchase",
        amount_minor=amount_minor,
        currency="EUR",
        mcc="5411",
        merchant_name="Shop",
        merchant_country="IE",
        arn="1",
        sequence=1,
    )


BY_MESSAGE = reference_of_message(spend(1).command_key)
NAMES = {
    "id": reference_of_id(spend(1).id),
    "message": BY_MESSAGE,
    "network": reference_of_network(NETWORK_ID),
}


async def held(host: TestHost) -> str:
    (reply,) = await host.execute(read_balance(next(_numbers), card_id=FIRST.id))
    assert isinstance(reply, Done)
    return str(reply.body["held"])


_numbers = iter(range(1, 100_000))


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
async def test_original_in_memory_is_found(host: TestHost, name: str) -> None:
    assert approved(await host.execute_one(spend(1)))
    assert approved(await host.execute_one(reversal(name)))
    assert await held(host) == "0.00"
    assert host.faults.calls["load_authorizations"] == 0


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
async def test_original_in_the_journal_is_found(host: TestHost, cluster: Cluster, name: str) -> None:
    assert approved(await host.execute_one(spend(1)))
    other = await cluster.add("b", ALL_SHARDS)
    replies = await other.execute(reversal("n:unknown", name))
    assert all(map(approved, replies))
    assert await held(other) == "0.00"


async def test_original_that_is_not_durable_is_found(host: TestHost) -> None:
    hold = host.faults.hold("during", "commit")
    pending = host.submit(spend(1))
    await hold.reached.wait()
    reversing = host.submit(reversal(BY_MESSAGE))
    await idle()
    hold.release()
    assert approved((await pending)[0])
    assert approved((await reversing)[0])
    assert await held(host) == "0.00"


async def test_follow_ups_find_an_original_in_the_same_batch(host: TestHost) -> None:
    replies = await host.execute(spend(1), reversal(BY_MESSAGE), presentment(NAMES["network"]))
    assert all(map(approved, replies))
    assert await held(host) == "0.00"


async def test_increment_that_is_not_durable_is_reversed_alone(host: TestHost) -> None:
    """The journal does not have it, so it must be known in memory who it belongs to."""
    assert approved(await host.execute_one(spend(1)))
    hold = host.faults.hold("during", "commit")
    raising = host.submit(spend(2, amount_minor=500, references=(BY_MESSAGE,)))
    await hold.reached.wait()
    undoing = host.submit(reversal(reference_of_message(spend(2).command_key), increment_minor=500))
    await turns(lambda: host.host.committer.backlog == 2 or host.faults.calls["load_authorizations"])
    await idle()
    hold.release()
    assert approved((await raising)[0])
    assert approved((await undoing)[0])
    assert await held(host) == "10.00"


async def test_durable_increment_is_reversed_alone(host: TestHost, cluster: Cluster) -> None:
    assert approved(await host.execute_one(spend(1)))
    assert approved(await host.execute_one(spend(2, amount_minor=500, references=(BY_MESSAGE,))))
    other = await cluster.add("b", ALL_SHARDS)
    undo = reversal(reference_of_message(spend(2).command_key), increment_minor=500)
    assert approved(await other.execute_one(undo))
    assert await held(other) == "10.00"


async def test_reversal_before_authorization_leaves_no_hold(host: TestHost, cluster: Cluster) -> None:
    assert approved(await host.execute_one(reversal(BY_MESSAGE)))
    other = await cluster.add("b", ALL_SHARDS)
    assert approved(await other.execute_one(spend(1)))
    assert await held(other) == "0.00"
    assert {row["state"] for row in cluster.store.holds.rows.values()} == {"released"}


async def test_authorization_during_the_look_up_of_its_reversal_is_reversed(host: TestHost) -> None:
    """The original arrives while its reversal looks it up in the journal."""
    hold = host.faults.hold("before", "load_authorizations")
    reversing = host.submit(reversal(BY_MESSAGE))
    await hold.reached.wait()
    assert approved(await host.execute_one(spend(1)))
    hold.release()
    assert approved((await reversing)[0])
    assert await held(host) == "0.00"


async def test_forgotten_reference_is_found_in_the_journal(host: TestHost, cluster: Cluster) -> None:
    first = await cluster.add("b", ALL_SHARDS)
    await furnish_more(first)
    actor = first.host.activation.cards[FIRST.id]
    assert len(actor.known) <= KNOWN_REFERENCES_MAX
    assert BY_MESSAGE not in actor.known
    assert approved(await first.execute_one(reversal(BY_MESSAGE)))
    assert cluster.store.transactions.rows[spend(1).id]["status"] == "reversed"


async def furnish_more(host: TestHost) -> None:
    replies = await host.execute(*(spend(number, amount_minor=1) for number in range(1, 60)))
    assert all(map(approved, replies))


async def test_presentments_on_several_hosts_add_up(host: TestHost, cluster: Cluster) -> None:
    assert approved(await host.execute_one(spend(1, amount_minor=5_000)))
    for number, name in enumerate("bcd", 600):
        other = await cluster.add(name, ALL_SHARDS)
        assert approved(await other.execute_one(presentment(BY_MESSAGE, number=number, amount_minor=400)))
    row = cluster.store.transactions.rows[spend(1).id]
    assert (row["cleared_minor"], row["held_minor"], row["status"]) == (1_200, 0, "cleared")


async def test_stale_read_does_not_replace_newer_state(host: TestHost, cluster: Cluster) -> None:
    """The authorization is cleared, and then removed from memory, while an older version of it is being
    read."""
    assert approved(await host.execute_one(spend(1, amount_minor=5_000)))
    assert approved(await host.execute_one(spend(2, amount_minor=500, references=(BY_MESSAGE,))))
    other = await cluster.add("b", ALL_SHARDS)
    assert approved(await other.execute_one(partly(601, BY_MESSAGE)))
    hold = other.faults.hold("after", "load_authorizations")
    late = other.submit(partly(602, reference_of_message(spend(2).command_key)))
    await hold.reached.wait()
    assert approved(await other.execute_one(partly(603, BY_MESSAGE)))
    assert all(
        map(approved, await other.execute(*(spend(number, amount_minor=1) for number in range(10, 60))))
    )
    hold.release()
    assert approved((await late)[0])
    assert cluster.store.transactions.rows[spend(1).id]["cleared_minor"] == 900


def partly(number: int, reference: str) -> Present:
    made = presentment(reference, number=number, amount_minor=300)
    return msgspec.structs.replace(made, final=False)


async def test_follow_up_for_an_absent_card_is_answered_14(host: TestHost) -> None:
    """A card number can be reserved for a card that was never created."""
    for command in (reversal(BY_MESSAGE), presentment(BY_MESSAGE)):
        ghost = msgspec.structs.replace(command, card_id=an_id(0xFFFF))
        assert await host.execute_one(ghost) == WireAnswer("14", command.id)
