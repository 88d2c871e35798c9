"""A greedy connection does not affect the others, and a stopping edge answers what it has read."""

from __future__ import annotations

import asyncio
import resource

import pytest

from actors.network.card_secrets import CardSecrets
from actors.network.edge_times import EdgeTimes
from engine.iso8583.acquirer import network_request
from engine.limits import EDGE_CONNECTIONS_PER_ADDRESS_MAX, EDGE_IN_FLIGHT_MAX
from tests.support.actors.network.support import Harness, Peer, request, running_edge, until


async def test_one_connection_carries_500_open_requests(harness: Harness) -> None:
    async with harness.peer() as peer:
        peer.send(*(request(stan) for stan in range(500)))
        answers = [await peer.receive() for _ in range(500)]
    assert {answer.fields[11] for answer in answers} == {f"{stan:06d}" for stan in range(500)}
    assert {answer.fields[39] for answer in answers} == {"00"}


async def test_too_many_open_requests_pause_only_their_connection(card_secrets: CardSecrets) -> None:
    extra = EDGE_IN_FLIGHT_MAX // 2
    total = EDGE_IN_FLIGHT_MAX + extra
    async with (
        running_edge(card_secrets, open_max=10 * total, times=EdgeTimes(receipt_seconds=600)) as harness,
        harness.peer() as flooding,
        harness.peer() as other,
    ):
        harness.owners.gate.clear()
        for start in range(0, total, 500):
            flooding.send(*(request(stan) for stan in range(start, min(start + 500, total))))
        await until(lambda: len(harness.owners.submitted) >= EDGE_IN_FLIGHT_MAX)
        other.send(request(0, de32="999"))
        await until(lambda: harness.owners.submitted[-1].wire.acquirer_id == "999")
        assert len(harness.owners.submitted) < total + 1
        harness.owners.gate.set()
        assert (await other.receive()).fields[39] == "00"
        answers = [await flooding.receive() for _ in range(total)]
        assert len({answer.fields[11] for answer in answers}) == total


async def test_connection_without_requests_is_closed_first_at_the_limit(card_secrets: CardSecrets) -> None:
    async with running_edge(card_secrets, connections_max=3) as harness:
        spoken = [await harness.connect() for _ in range(2)]
        for peer in spoken:
            assert (await peer.ask(request())).fields[39] == "00"
        silent = await harness.connect()
        await until(lambda: harness.edge.connected == 3)
        newcomer = await harness.connect()
        assert (await newcomer.ask(request())).fields[39] == "00"
        assert await silent.is_closed()
        another = await harness.connect()
        assert (await another.ask(request())).fields[39] == "00"
        assert await spoken[0].is_closed()
        assert harness.edge.counts.refused == 2
        for peer in [*spoken, silent, newcomer, another]:
            await peer.close()


async def test_busy_connection_is_not_closed_for_a_new_one(card_secrets: CardSecrets) -> None:
    async with running_edge(card_secrets, connections_max=2) as harness:
        harness.owners.gate.clear()
        busy = [await harness.connect() for _ in range(2)]
        for stan, peer in enumerate(busy):
            peer.send(request(stan))
        await until(lambda: len(harness.owners.submitted) == 2)
        refused = await harness.connect()
        assert await refused.is_closed()
        harness.owners.gate.set()
        assert [(await peer.receive()).fields[39] for peer in busy] == ["00", "00"]
        for peer in [*busy, refused]:
            await peer.close()


async def test_1500_idle_connections_do_not_keep_a_new_one_out(card_secrets: CardSecrets) -> None:
    """Each idle connection has sent an echo test. The network that connected before them keeps its
    connection."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(max(soft, 8_192), hard), hard))
    echo = network_request("301", "000007", 1_795_253_400_000)
    async with running_edge(card_secrets) as harness:
        network = await harness.connect()
        assert (await network.ask(request(1))).fields[39] == "00"
        idle: list[Peer] = []
        for _ in range(1_500):
            idle.append(await harness.connect())
            assert (await idle[-1].ask(echo)).fields[39] == "00"
        assert harness.edge.connected == EDGE_CONNECTIONS_PER_ADDRESS_MAX
        newcomer = await harness.connect()
        assert (await newcomer.ask(request(2))).fields[39] == "00"
        assert (await network.ask(request(3))).fields[39] == "00"
        assert harness.edge.counts.refused == 1_502 - EDGE_CONNECTIONS_PER_ADDRESS_MAX
        for peer in [network, newcomer, *idle]:
            peer.writer.transport.abort()


async def test_stop_sends_the_answers_of_open_requests(card_secrets: CardSecrets) -> None:
    async with running_edge(card_secrets) as harness:
        harness.owners.gate.clear()
        peer = await harness.connect()
        peer.send(request())
        await until(lambda: harness.owners.submitted)
        stopping = asyncio.create_task(harness.edge.stop())
        with pytest.raises(ConnectionError):
            await _refused_connection(harness)
        harness.owners.gate.set()
        assert (await peer.receive()).fields[39] == "00"
        assert await peer.is_closed()
        await stopping
        await harness.edge.stop()
        await peer.close()


async def _refused_connection(harness: Harness) -> None:
    while True:
        late = Peer(*await asyncio.open_connection(*harness.address))
        await late.close()


async def test_disconnected_peer_leaves_no_connection_and_can_repeat(harness: Harness) -> None:
    harness.owners.gate.clear()
    peer = await harness.connect()
    peer.send(request())
    await until(lambda: harness.owners.submitted)
    await peer.close()
    await until(lambda: harness.edge.connected == 0)
    harness.owners.gate.set()
    await until(lambda: harness.respondent.counts.answered == 1)
    async with harness.peer() as reconnected:
        assert (await reconnected.ask(request(mti="0101"))).fields[39] == "00"
