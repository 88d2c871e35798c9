"""A card is replaced while it is in use: no limit of the day is spent twice, no message of the old card is
lost, and both cards change in one commit."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from actors.journal.contract import RejectedError, UnknownOutcomeError
from actors.journal.memory import Point
from engine.commands import Command, Reverse, reference_of_id
from engine.controls import PerDayAmountCap, PerDayCap
from engine.decision.delegation import EndpointResult
from engine.replies import Done, Problem, Reply, WireAnswer
from tests.support.actors.shards.support import (
    ACCOUNT,
    ADMIN,
    ALL_SHARDS,
    FIRST,
    Cluster,
    Hold,
    TestHost,
    approved,
    furnish,
    idle,
)
from tests.support.engine.build import (
    authorize,
    change_card,
    change_programme,
    create_card,
    key,
    read_balance,
    replace_card,
    set_cardholder_status,
    wire,
)

REPLACE = replace_card(1, card_id=FIRST.id)
AGAIN = replace_card(2, card_id=FIRST.id)
NEW = REPLACE.id
USABLE = set_cardholder_status(77, card_id=NEW, active=True)
UNFUNDED = create_card(5, 0x2C, programme_id=ADMIN.id, account_id=None, opens_account=False)


def spend(number: int = 1, card_id: str = FIRST.id, **parts: Any) -> Command:
    return authorize(number, **({"card_id": card_id, "amount_minor": 6_000} | parts))


def reverse(number: int, authorization_id: str, card_id: str = FIRST.id) -> Reverse:
    return Reverse(
        id=authorize(number).id,
        command_key=key(number),
        card_id=card_id,
        fingerprint=key(number),
        wire=wire(number),
        references=(reference_of_id(authorization_id),),
    )


def code(reply: Reply) -> str:
    assert isinstance(reply, WireAnswer), reply
    return reply.response_code


def done(reply: Reply) -> dict[str, Any]:
    assert isinstance(reply, Done), reply
    return reply.body


@pytest.fixture
async def limited(host: TestHost) -> TestHost:
    """The first card has 100.00 and may spend 100.00 a day."""
    done(await host.execute_one(change_card(1, card_id=FIRST.id, controls=(PerDayAmountCap(10_000),))))
    return host


async def test_spend_before_the_replacement_counts_on_the_new_card(limited: TestHost) -> None:
    """A spend in flight, then the replacement, all in one batch; the day's limit is not spent twice."""
    first, replaced = await limited.execute(spend(1), REPLACE)
    assert (code(first), done(replaced)["replaces"]) == ("00", FIRST.id)
    done(await limited.execute_one(USABLE))
    assert code(await limited.execute_one(spend(2, NEW))) == "61"
    assert code(await limited.execute_one(spend(3, NEW, amount_minor=4_000))) == "00"


async def test_spend_after_the_replacement_is_declined(limited: TestHost) -> None:
    replaced, late = await limited.execute(REPLACE, spend(1))
    assert (done(replaced)["id"], code(late)) == (NEW, "41")
    done(await limited.execute_one(USABLE))
    assert code(await limited.execute_one(spend(2, NEW, amount_minor=10_000))) == "00"


async def test_spend_whose_commit_is_under_way_counts_on_the_new_card(
    limited: TestHost, cluster: Cluster
) -> None:
    hold = limited.faults.hold("during", "commit")
    spending = limited.submit(spend(1))
    await hold.reached.wait()
    replacing = limited.submit(REPLACE)
    await idle()
    assert not replacing.done()
    hold.release()
    assert [code(reply) for reply in await spending] == ["00"]
    await replacing
    done(await limited.execute_one(USABLE))
    assert code(await limited.execute_one(spend(2, NEW))) == "61"
    assert cluster.store.card_usage.rows[NEW]["day_amount_minor"] == 6_000


async def test_spend_that_waits_for_its_programme_is_declined_after_the_replacement(
    limited: TestHost, cluster: Cluster
) -> None:
    changes = {"decisioning": "delegated", "decision_url": "https://decide.example"}
    done(await limited.execute_one(change_programme(1, programme_id=ADMIN.id, **changes)))
    cluster.programmes.barrier = Hold()
    cluster.programmes.answer = lambda question: EndpointResult("approved")
    spending = limited.submit(spend(1))
    await cluster.programmes.barrier.reached.wait()
    done(await limited.execute_one(REPLACE))
    cluster.programmes.barrier.release()
    assert [code(reply) for reply in await spending] == ["41"]
    assert cluster.store.card_usage.rows[NEW]["day_amount_minor"] == 0


@pytest.mark.parametrize("lost", ["before", "after"])
async def test_limit_holds_when_the_outcome_of_the_commit_is_unknown(
    limited: TestHost, cluster: Cluster, lost: Any
) -> None:
    """The commit of the spend and of the replacement fails before it, or after it took effect."""
    limited.faults.fail(lost, "commit", UnknownOutcomeError("commit"))
    first, replaced = await limited.execute(spend(1), REPLACE)
    assert (code(first), done(replaced)["id"]) == ("00", NEW)
    done(await limited.execute_one(USABLE))
    assert code(await limited.execute_one(spend(2, NEW))) == "61"
    kinds = [row["kind"] for row in cluster.journal_of(FIRST.id)]
    assert kinds == ["create_card", "load", "change_card", "authorize", "replace_card"]
    assert [row["kind"] for row in cluster.journal_of(NEW)][:2] == ["create_card", "set_cardholder_status"]


async def test_refused_batch_is_committed_again_with_both_cards(limited: TestHost, cluster: Cluster) -> None:
    limited.faults.fail("during", "commit", RejectedError("once"))
    first, replaced = await limited.execute(spend(1), REPLACE)
    assert (code(first), done(replaced)["id"]) == ("00", NEW)
    assert cluster.store.card_replacements.rows[FIRST.id]["replacement_id"] == NEW


async def test_count_of_the_day_continues(host: TestHost) -> None:
    done(await host.execute_one(change_card(1, card_id=FIRST.id, controls=(PerDayCap(2),))))
    await host.execute(spend(1, amount_minor=1), REPLACE)
    await host.execute(USABLE)
    replies = await host.execute(*(spend(number, NEW, amount_minor=1) for number in (2, 3)))
    assert [code(reply) for reply in replies] == ["00", "65"]


async def test_card_is_replaced_once(host: TestHost, cluster: Cluster) -> None:
    replies = await host.execute(REPLACE, AGAIN)
    done(replies[0])
    assert isinstance(replies[1], Problem)
    assert replies[1].slug == "card-already-replaced"
    assert set(cluster.store.cards.rows) & {NEW, AGAIN.id} == {NEW}
    assert list(cluster.store.card_replacements.rows) == [FIRST.id]


async def test_repeated_replacement_gets_the_same_answer(host: TestHost, cluster: Cluster) -> None:
    first, again = await host.execute_one(REPLACE), await host.execute_one(REPLACE)
    assert (done(first), getattr(again, "replayed", None)) == (done(again), True)
    assert len(cluster.journal_of(NEW)) == 1


async def test_holds_of_the_old_card_stay_and_are_released_on_the_shared_account(host: TestHost) -> None:
    sale = spend(1)
    await host.execute(sale, REPLACE)
    before = done(await host.execute_one(read_balance(1, card_id=NEW)))
    assert (before["account_id"], before["held"], before["available"]) == (ACCOUNT, "60.00", "40.00")
    assert code(await host.execute_one(reverse(8, sale.id))) == "00"
    after = done(await host.execute_one(read_balance(2, card_id=NEW)))
    assert (after["held"], after["available"]) == ("0.00", "100.00")


async def test_replacement_declines_until_its_cardholder_is_known_to_be_active(host: TestHost) -> None:
    await host.execute(REPLACE)
    assert code(await host.execute_one(spend(1, NEW))) == "57"
    done(await host.execute_one(USABLE))
    assert approved(await host.execute_one(spend(2, NEW)))


async def test_replacement_of_an_unfunded_card_has_its_shard_and_no_account(
    host: TestHost, cluster: Cluster
) -> None:
    done(await host.execute_one(UNFUNDED))
    command = replace_card(3, 0x2C, card_id=UNFUNDED.id, reason="expired")
    body = done(await host.execute_one(command))
    assert (body["funding_account_id"], body["id"][-2:]) == (None, UNFUNDED.id[-2:])
    assert cluster.store.card(command.id) is not None


async def test_replacement_survives_the_loss_of_its_host(cluster: Cluster) -> None:
    first = await cluster.add("a", ALL_SHARDS)
    await furnish(first)
    await first.execute(spend(1), REPLACE)
    second = await cluster.add("b", ALL_SHARDS)
    done(await second.execute_one(USABLE))
    assert code(await second.execute_one(spend(2, NEW, amount_minor=5_000))) == "51"
    assert code(await second.execute_one(spend(3, FIRST.id))) == "41"


async def test_replacement_of_a_replacement_continues_the_counters(limited: TestHost) -> None:
    await limited.execute(spend(1), REPLACE)
    done(await limited.execute_one(USABLE))
    third = replace_card(9, card_id=NEW, reason="stolen")
    replies = await asyncio.gather(
        limited.execute_one(spend(2, NEW, amount_minor=3_000)), limited.execute_one(third)
    )
    assert (code(replies[0]), done(replies[1])["replaces"]) == ("00", NEW)
    done(await limited.execute_one(set_cardholder_status(78, card_id=third.id, active=True)))
    assert code(await limited.execute_one(spend(3, third.id, amount_minor=2_000))) == "61"
    assert code(await limited.execute_one(spend(4, third.id, amount_minor=1_000))) == "00"


@pytest.mark.parametrize("seed", range(40))
async def test_limit_holds_for_random_orders_and_faults(cluster: Cluster, seed: int) -> None:
    """Spends on both cards around a replacement, with commits that fail before or after they took effect: the
    approved amounts of the day never exceed the limit, and each answer is true of the journal."""
    dice = random.Random(seed)
    host = await cluster.add("a", ALL_SHARDS)
    await furnish(host, cents=100_000)
    done(await host.execute_one(change_card(1, card_id=FIRST.id, controls=(PerDayAmountCap(10_000),))))
    commands = [spend(number, FIRST.id, amount_minor=dice.randint(1, 6_000)) for number in range(1, 5)]
    commands.insert(dice.randrange(5), REPLACE)
    for _ in range(dice.randrange(3)):
        points: tuple[Point, Point] = ("before", "after")
        host.faults.fail(dice.choice(points), "commit", UnknownOutcomeError("commit"))
    cut = dice.randrange(6)
    batches = [host.submit(*commands[:cut]), host.submit(*commands[cut:])]
    replies = [reply for batch in await asyncio.gather(*batches) for reply in batch]
    done(next(reply for command, reply in zip(commands, replies, strict=True) if command is REPLACE))
    done(await host.execute_one(USABLE))
    later = [spend(number, NEW, amount_minor=dice.randint(1, 6_000)) for number in range(11, 15)]
    replies += await host.execute(*later)
    stored = cluster.store.transactions.rows
    spent = {
        command.id: reply.approved_minor
        for command, reply in zip((*commands, *later), replies, strict=True)
        if isinstance(reply, WireAnswer)
    }
    assert {id_: stored[id_]["approved_minor"] for id_ in spent} == spent
    assert sum(spent.values()) <= 10_000
    assert cluster.store.card_usage.rows[NEW]["day_amount_minor"] == sum(spent.values())
