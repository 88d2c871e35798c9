"""Whole lives of sales: each that began is completed, and no amount stays held."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from engine.iso8583.content import AuthorizationRequest, Presentment, ReversalNotice
from engine.iso8583.content_reader import read
from engine.iso8583.message import Message
from loadtests.generators.lives import LifeLoad
from tests.loadtests.generators.test_wire import CARDS, Peer
from tests.support.ops.waiting import wait_until


@pytest.mark.parametrize("declined", [None, CARDS[0].pan])
async def test_every_life_ends(declined: str | None) -> None:
    seen: list[Message] = []
    server = await asyncio.get_running_loop().create_server(lambda: Peer(seen, declined), "127.0.0.1", 0)
    load = LifeLoad([server.sockets[0].getsockname()], CARDS, connections=2, in_flight=10)
    await load.start()
    await wait_until(lambda: len(seen) > 400)
    samples = await load.stop()
    server.close()
    await server.wait_closed()
    contents = [read(message) for message in seen]
    asked = [each for each in contents if isinstance(each, AuthorizationRequest)]
    ended = [each for each in contents if isinstance(each, Presentment | ReversalNotice)]
    begun = [
        each
        for each in asked
        if each.purchase.kind == "purchase" and not each.purchase.references and each.pan != declined
    ]
    assert len(ended) == len(begun)
    assert {each.purchase.kind for each in asked} == {"purchase", "refund"}
    assert Counter(type(each).__name__ for each in contents).keys() == {
        "AuthorizationRequest",
        "Presentment",
        "ReversalNotice",
    }
    assert any(each.purchase.references for each in asked)
    assert (samples.approved, samples.lost) == (0, 0)
    assert len(samples.done) == len(seen)
    assert bool(samples.refused) == (declined is not None)


async def test_taken_samples_are_those_since_the_last_call() -> None:
    seen: list[Message] = []
    server = await asyncio.get_running_loop().create_server(lambda: Peer(seen, None), "127.0.0.1", 0)
    load = LifeLoad([server.sockets[0].getsockname()], CARDS, connections=2, in_flight=10)
    await load.start()
    await wait_until(lambda: load.answers > 100)
    taken = [load.take(), load.take()]
    assert (len(taken[0].done), taken[1].done) == (load.answers, [])
    await wait_until(lambda: load.answers > 300)
    rest = await load.stop()
    server.close()
    await server.wait_closed()
    assert len(taken[0].done) + len(rest.done) == load.answers == len(seen)
    assert (taken[0].approved, rest.approved, rest.lost) == (0, 0, 0)
    assert 0 < load.lives < load.answers
