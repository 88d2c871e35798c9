"""Beyond the limits of open requests, original authorizations get 91 at once; other messages are served."""

from __future__ import annotations

from actors.network.card_secrets import CardSecrets
from engine.iso8583.acquirer import network_request
from tests.support.actors.network.support import request, running_edge, until


async def test_authorization_beyond_the_open_limit_gets_91(
    card_secrets: CardSecrets,
) -> None:
    """The refusal is immediate and applies to all connections. Repeats and other messages are not refused."""
    async with running_edge(card_secrets, open_max=3) as harness, harness.peer() as peer:
        harness.owners.gate.clear()
        peer.send(*(request(stan) for stan in range(3)))
        await until(lambda: len(harness.owners.submitted) == 3)
        async with harness.peer() as other:
            assert (await other.ask(request(7))).fields[39] == "91"
        assert (await peer.ask(request(8))).fields[39] == "91"
        assert (await peer.ask(network_request("301", "000001", 0))).fields[39] == "00"
        peer.send(request(2, "0101"))
        await until(lambda: len(harness.owners.submitted) == 4)
        assert (harness.edge.counts.shed, harness.respondent.open) == (2, 4)
        harness.owners.gate.set()
        assert [(await peer.receive()).fields[39] for _ in range(4)] == ["00"] * 4
        assert (await peer.ask(request(8))).fields[39] == "00"
        assert {command.wire.stan for command in harness.owners.submitted} == {
            "000000", "000001", "000002", "000008",
        }  # fmt: skip


async def test_deferred_requests_do_not_count_towards_the_open_limit(card_secrets: CardSecrets) -> None:
    """A slow decision endpoint of one programme does not cause refusals for others."""
    deferred = [3]
    async with running_edge(card_secrets, open_max=3, deferred=lambda: deferred[0]) as harness:
        async with harness.peer() as peer:
            harness.owners.gate.clear()
            peer.send(*(request(stan) for stan in range(6)))
            await until(lambda: len(harness.owners.submitted) == 6)
            assert (await peer.ask(request(7))).fields[39] == "91"
            deferred[0] = 4
            peer.send(request(8))
            await until(lambda: len(harness.owners.submitted) == 7)
            harness.owners.gate.set()
            assert [(await peer.receive()).fields[39] for _ in range(7)] == ["00"] * 7


async def test_congested_owner_queues_refuse_authorizations(card_secrets: CardSecrets) -> None:
    congested = [True, False]
    async with (
        running_edge(card_secrets, congested=lambda: congested.pop(0)) as harness,
        harness.peer() as peer,
    ):
        assert (await peer.ask(request(1))).fields[39] == "91"
        assert (await peer.ask(request(1))).fields[39] == "00"
        assert harness.edge.counts.shed == 1
