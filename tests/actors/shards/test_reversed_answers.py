"""Stored answers of approvals that an edge has reversed as late: every repeat, at every owner, is answered
with 91, although the journal's own answer is an approval."""

from __future__ import annotations

from typing import Any

import pytest

from actors.network.late_reversals import reversal_of
from engine.commands import Authorize, reference_of_id
from engine.limits import ACTIVATION_ANSWERS
from engine.replies import Reply, WireAnswer
from tests.support.actors.shards.support import ALL_SHARDS, FIRST, Cluster, TestHost
from tests.support.engine.build import an_id, authorize, key, read_balance


def spend(number: int = 1, **parts: Any) -> Authorize:
    return authorize(number, **({"card_id": FIRST.id, "amount_minor": 1_000} | parts))


def code(reply: Reply) -> str:
    assert isinstance(reply, WireAnswer)
    return reply.response_code


async def held(host: TestHost) -> str:
    balance = await host.execute_one(read_balance(1, card_id=FIRST.id))
    return str(getattr(balance, "body", {})["held"])


async def reverse_late(host: TestHost, command: Authorize) -> None:
    assert code(await host.execute_one(reversal_of(command, command.amount_minor))) == "00"


async def test_repeat_of_a_reversed_approval_is_answered_91(host: TestHost) -> None:
    assert code(await host.execute_one(spend())) == "00"
    await reverse_late(host, spend())
    again = await host.execute_one(spend())
    assert again == WireAnswer("91", spend().id, replayed=True)
    assert await held(host) == "0.00"


async def test_other_content_is_still_a_conflict(host: TestHost) -> None:
    await host.execute_one(spend())
    await reverse_late(host, spend())
    assert code(await host.execute_one(spend(fingerprint=key(9)))) == "94"


async def test_reversed_decline_stays_declined(host: TestHost) -> None:
    declined = spend(amount_minor=10_000_000)
    assert code(await host.execute_one(declined)) == "51"
    await reverse_late(host, declined)
    assert code(await host.execute_one(declined)) == "51"


@pytest.mark.parametrize("between", [0, ACTIVATION_ANSWERS + 2], ids=["lately", "long ago"])
async def test_next_owner_also_answers_91(host: TestHost, cluster: Cluster, between: int) -> None:
    """It finds the reversal among the card's newest answers, or after a refused commit."""
    await host.execute_one(spend())
    await reverse_late(host, spend())
    for number in range(between):
        await host.execute_one(spend(100 + number, amount_minor=1))
    successor = await cluster.add("b", ALL_SHARDS)
    for _ in range(2):
        assert await successor.execute_one(spend()) == WireAnswer("91", spend().id, replayed=True)


async def test_late_reversal_before_its_authorization_is_answered_91(
    host: TestHost, cluster: Cluster
) -> None:
    """The edge did not know the outcome when it reversed; a later approval must not be passed on."""
    await reverse_late(host, spend())
    assert code(await host.execute_one(spend())) == "91"
    assert code(await host.execute_one(spend())) == "91"
    assert await held(host) == "0.00"
    successor = await cluster.add("b", ALL_SHARDS)
    assert code(await successor.execute_one(spend())) == "91"


async def test_repeat_of_a_reversed_increment_is_answered_91(host: TestHost) -> None:
    await host.execute_one(spend())
    raise_ = spend(2, references=(reference_of_id(spend().id),))
    assert code(await host.execute_one(raise_)) == "00"
    await reverse_late(host, raise_)
    assert code(await host.execute_one(raise_)) == "91"
    assert code(await host.execute_one(spend())) == "00"
    assert await held(host) == "10.00"


async def test_reversal_of_the_network_keeps_the_stored_answer(host: TestHost) -> None:
    """The network knows its own reversal; a repeat gets the same answer as before."""
    await host.execute_one(spend())
    reversal = reversal_of(spend(), 1_000)
    parts = {name: getattr(reversal, name) for name in reversal.__struct_fields__}
    foreign = type(reversal)(**parts | {"command_key": key(7), "fingerprint": key(7), "id": an_id(0x77)})
    assert code(await host.execute_one(foreign)) == "00"
    assert code(await host.execute_one(spend())) == "00"
