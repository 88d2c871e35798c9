"""Late reversals of a message that several edges handle: an approval that one edge has passed on in time
stands, and an approval that was late at all edges is reversed."""

from __future__ import annotations

import asyncio
from itertools import permutations
from typing import Any

import msgspec
import pytest

from actors.network.late_reversals import reversal_of
from actors.submission import Submission
from engine.commands import Advise, Authorize, Reverse, reference_of_id, reference_of_message
from engine.replies import Reply, WireAnswer
from tests.support.actors.shards.support import ALL_SHARDS, FIRST, PATIENCE_MS, Cluster, TestHost, idle
from tests.support.engine.build import an_id, authorize, key, read_balance, wire

STANDS = "21"


def sale(exchange: int = 0, **parts: Any) -> Authorize:
    """One message as exchange number ``exchange`` sends it: the same command key, its own id."""
    about = {"card_id": FIRST.id, "amount_minor": 1_000, "id": an_id(0xE_0000 + exchange)} | parts
    return authorize(1, **about)


def increment(exchange: int = 0) -> Authorize:
    return authorize(
        2,
        card_id=FIRST.id,
        amount_minor=300,
        # Approval codes are derived from the last twelve digits.
        id=f"00000002-0000-7000-8000-{exchange + 1:08x}00{FIRST.id[-2:]}",
        references=(reference_of_id(authorize(3).id),),
    )


def late(command: Authorize) -> Reverse:
    return reversal_of(command, command.amount_minor)


def code(reply: Reply) -> str:
    assert isinstance(reply, WireAnswer), reply
    return reply.response_code


async def codes(host: TestHost, *commands: Any) -> list[str]:
    return [code(await host.execute_one(command)) for command in commands]


async def held(host: TestHost) -> str:
    balance = await host.execute_one(read_balance(1, card_id=FIRST.id))
    return str(getattr(balance, "body", {})["held"])


def advice(number: int = 600) -> Advise:
    """The network has approved 12.00 on our behalf."""
    return Advise(
        id=an_id(0xA_0000 + number),
        command_key=key(number),
        card_id=FIRST.id,
        fingerprint=key(number),
        wire=wire(number, network_txn_id="N1"),
        references=("n:N1", reference_of_message(sale().command_key)),
        amount_minor=1_200,
        currency="EUR",
        mcc="5411",
        merchant_name="Shop",
        merchant_country="IE",
        channel="pos",
        stand_in=True,
    )


def networks_reversal() -> Reverse:
    references = (reference_of_message(sale().command_key), "n:N1")
    undone = msgspec.structs.replace(late(sale()), references=references, late=False)
    return msgspec.structs.replace(undone, id=an_id(0xB_0000), command_key=key(601), fingerprint=key(601))


@pytest.mark.parametrize("successors", [False, True], ids=["one owner", "new owners"])
@pytest.mark.parametrize("order", list(permutations(("sale", "undo", "advice"))), ids=" ".join)
async def test_advice_beside_a_late_reversal_holds_until_the_network_reverses(
    host: TestHost, cluster: Cluster, order: tuple[str, ...], successors: bool
) -> None:
    named = sale(wire=wire(1, network_txn_id="N1"))
    steps: dict[str, Any] = {"sale": named, "undo": late(named), "advice": advice()}
    owner = host
    for place, step in enumerate(order):
        await owner.execute_one(steps[step])
        if successors:
            owner = await cluster.add(f"successor-{place}", ALL_SHARDS)
    assert await held(owner) == "12.00"
    assert await codes(owner, networks_reversal(), advice(602)) == ["00", "00"]
    assert await held(owner) == "0.00"


async def test_approval_given_to_a_repeat_stands(host: TestHost) -> None:
    assert await codes(host, sale(0), sale(1), late(sale(0)), sale(2)) == ["00", "00", STANDS, "00"]
    assert await held(host) == "10.00"


async def test_approval_given_to_the_first_exchange_stands(host: TestHost) -> None:
    assert await codes(host, sale(0), sale(1), late(sale(1)), sale(2)) == ["00", "00", STANDS, "00"]
    assert await held(host) == "10.00"


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2)], ids=str)
async def test_approval_late_in_every_exchange_is_reversed(host: TestHost, order: tuple[int, ...]) -> None:
    assert await codes(host, sale(0), sale(1), sale(2)) == ["00"] * 3
    reversals = [late(sale(exchange)) for exchange in order]
    assert await codes(host, *reversals) == [STANDS, STANDS, "00"]
    assert await held(host) == "0.00"
    assert await codes(host, sale(3)) == ["91"]


async def test_repeated_reversal_of_one_exchange_changes_nothing_more(host: TestHost) -> None:
    assert await codes(host, sale(0), sale(1)) == ["00", "00"]
    assert await codes(host, late(sale(0)), late(sale(0)), late(sale(0))) == [STANDS] * 3
    assert await held(host) == "10.00"


async def test_conflicting_repeat_does_not_keep_an_approval(host: TestHost) -> None:
    assert await codes(host, sale(0), sale(1, fingerprint=key(9)), late(sale(0))) == ["00", "94", "00"]
    assert await held(host) == "0.00"


async def test_next_owner_reverses_for_the_author_only(host: TestHost, cluster: Cluster) -> None:
    """It does not know which exchanges got the approval: the reversal of a repeat does not prove that the
    author's answer was late."""
    assert await codes(host, sale(0)) == ["00"]
    successor = await cluster.add("b", ALL_SHARDS)
    assert await codes(successor, late(sale(1))) == [STANDS]
    assert await held(successor) == "10.00"
    assert await codes(successor, late(sale(0))) == ["00"]
    assert await held(successor) == "0.00"


async def test_next_owner_knows_the_author_of_an_increment(host: TestHost, cluster: Cluster) -> None:
    first = authorize(3, card_id=FIRST.id, amount_minor=1_000)
    assert await codes(host, first, increment(0)) == ["00", "00"]
    successor = await cluster.add("b", ALL_SHARDS)
    assert await codes(successor, late(increment(1))) == [STANDS]
    assert await held(successor) == "13.00"
    assert await codes(successor, late(increment(0)), increment(2)) == ["00", "91"]
    assert await held(successor) == "10.00"


async def test_next_owner_finds_old_approvals_in_the_journal(host: TestHost, cluster: Cluster) -> None:
    assert await codes(host, sale(0)) == ["00"]
    for number in range(30):
        await host.execute_one(authorize(100 + number, card_id=FIRST.id, amount_minor=1))
    successor = await cluster.add("b", ALL_SHARDS)
    assert await codes(successor, late(sale(1))) == [STANDS]
    assert successor.faults.calls["find"] == 1


async def test_repeat_that_joins_its_original_keeps_the_approval(host: TestHost) -> None:
    """Both wait for one commit; meanwhile the first exchange times out and reverses."""
    hold = host.faults.hold("during", "commit")
    first, repeat = host.submit(sale(0)), host.submit(sale(1))
    await hold.reached.wait()
    reversing = host.submit(late(sale(0)))
    await idle()
    assert not reversing.done()
    hold.release()
    replies = await asyncio.gather(first, repeat, reversing)
    assert [code(reply) for (reply,) in replies] == ["00", "00", STANDS]
    assert await held(host) == "10.00"


async def test_repeat_waits_for_a_reversal_in_flight(host: TestHost) -> None:
    assert await codes(host, sale(0)) == ["00"]
    hold = host.faults.hold("during", "commit")
    reversing = host.submit(late(sale(0)))
    await hold.reached.wait()
    repeat = host.submit(sale(1))
    await idle()
    assert not repeat.done()
    hold.release()
    replies = await asyncio.gather(reversing, repeat)
    assert [code(reply) for (reply,) in replies] == ["00", "91"]
    assert await held(host) == "0.00"


async def test_concurrent_reversals_of_two_exchanges_reverse_once(host: TestHost) -> None:
    assert await codes(host, sale(0), sale(1)) == ["00", "00"]
    replies = await asyncio.gather(host.execute_one(late(sale(0))), host.execute_one(late(sale(1))))
    assert sorted(map(code, replies)) == ["00", STANDS]
    assert await held(host) == "0.00"


async def test_marked_repeat_is_answered_without_a_refused_commit(host: TestHost, cluster: Cluster) -> None:
    assert await codes(host, sale(0)) == ["00"]
    for number in range(30):
        await host.execute_one(authorize(100 + number, card_id=FIRST.id, amount_minor=1))
    successor = await cluster.add("b", ALL_SHARDS)
    (reply,) = await successor.host.execute([Submission(sale(1), PATIENCE_MS, repeat=True)])
    assert reply == WireAnswer("00", sale(0).id, getattr(reply, "approval_code", None), 1_000, replayed=True)
    assert successor.host.committer.failures == 0
    unknown = Submission(authorize(77, card_id=FIRST.id), PATIENCE_MS, repeat=True)
    (fresh,) = await successor.host.execute([unknown])
    assert code(fresh) == "00"


async def test_marked_repeat_of_a_reversed_approval_is_refused(host: TestHost, cluster: Cluster) -> None:
    assert await codes(host, sale(0), late(sale(0))) == ["00", "00"]
    for number in range(30):
        await host.execute_one(authorize(100 + number, card_id=FIRST.id, amount_minor=1))
    successor = await cluster.add("b", ALL_SHARDS)
    (reply,) = await successor.host.execute([Submission(sale(1), PATIENCE_MS, repeat=True)])
    assert code(reply) == "91"
