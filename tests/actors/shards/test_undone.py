"""An approval that came too late: the edge has told the network 91 and has undone it. Whoever asks again, of
whichever owner, is told 91 too, although the journal's own answer is an approval."""

from __future__ import annotations

from typing import Any

import pytest

from actors.network.late_reversals import reversal_of
from engine.commands import Authorize, reference_of_id
from engine.limits import ACTIVATION_ANSWERS
from engine.replies import Reply, WireAnswer
from tests.actors.shards.support import ALL_SHARDS, FIRST, Cluster, TestHost
from tests.engine.build import an_id, authorize, key, read_balance


def spend(number: int = 1, **parts: Any) -> Authorize:
    return authorize(number, **({"card_id": FIRST.id, "amount_minor": 1_000} | parts))


def code(reply: Reply) -> str:
    assert isinstance(reply, WireAnswer)
    return reply.response_code


async def held(host: TestHost) -> str:
    balance = await host.ask_one(read_balance(1, card_id=FIRST.id))
    return str(getattr(balance, "body", {})["held"])


async def undo(host: TestHost, command: Authorize) -> None:
    assert code(await host.ask_one(reversal_of(command, command.amount_minor))) == "00"


async def test_a_repeat_of_what_was_undone(host: TestHost) -> None:
    assert code(await host.ask_one(spend())) == "00"
    await undo(host, spend())
    again = await host.ask_one(spend())
    assert again == WireAnswer("91", spend().id, replayed=True)
    assert await held(host) == "0.00"


async def test_other_content_is_still_a_conflict(host: TestHost) -> None:
    await host.ask_one(spend())
    await undo(host, spend())
    assert code(await host.ask_one(spend(fingerprint=key(9)))) == "94"


async def test_what_was_declined_stays_so(host: TestHost) -> None:
    declined = spend(amount_minor=10_000_000)
    assert code(await host.ask_one(declined)) == "51"
    await undo(host, declined)
    assert code(await host.ask_one(declined)) == "51"


@pytest.mark.parametrize("between", [0, ACTIVATION_ANSWERS + 2], ids=["lately", "long ago"])
async def test_the_next_owner_knows_it_too(host: TestHost, cluster: Cluster, between: int) -> None:
    """... from the card's newest answers, or from the commit that is refused."""
    await host.ask_one(spend())
    await undo(host, spend())
    for number in range(between):
        await host.ask_one(spend(100 + number, amount_minor=1))
    heir = await cluster.add("b", ALL_SHARDS)
    for _ in range(2):
        assert await heir.ask_one(spend()) == WireAnswer("91", spend().id, replayed=True)


async def test_an_undoing_that_comes_first(host: TestHost, cluster: Cluster) -> None:
    """The edge did not know whether it was approved; then nothing may be told of an approval either."""
    await undo(host, spend())
    assert code(await host.ask_one(spend())) == "91"
    assert code(await host.ask_one(spend())) == "91"
    assert await held(host) == "0.00"
    heir = await cluster.add("b", ALL_SHARDS)
    assert code(await heir.ask_one(spend())) == "91"


async def test_an_increment_that_was_undone(host: TestHost) -> None:
    await host.ask_one(spend())
    raise_ = spend(2, references=(reference_of_id(spend().id),))
    assert code(await host.ask_one(raise_)) == "00"
    await undo(host, raise_)
    assert code(await host.ask_one(raise_)) == "91"
    assert code(await host.ask_one(spend())) == "00"
    assert await held(host) == "10.00"


async def test_a_reversal_of_the_network_changes_no_answer(host: TestHost) -> None:
    """It knows what it has taken back, and a repeat hears what it heard before."""
    await host.ask_one(spend())
    undoing = reversal_of(spend(), 1_000)
    parts = {name: getattr(undoing, name) for name in undoing.__struct_fields__}
    foreign = type(undoing)(**parts | {"command_key": key(7), "fingerprint": key(7), "id": an_id(0x77)})
    assert code(await host.ask_one(foreign)) == "00"
    assert code(await host.ask_one(spend())) == "00"
