"""A message and its repeats are one command."""

from __future__ import annotations

from actors.network.card_secrets import CardSecrets
from tests.support.actors.network.support import DEADLINE_MS, let_expire, request, running_edge, until


async def test_open_repeat_gets_the_approval_that_was_late_for_its_original(
    card_secrets: CardSecrets,
) -> None:
    async with running_edge(card_secrets, deadline_ms=DEADLINE_MS) as harness, harness.peer() as peer:
        harness.owners.gate.clear()
        assert (await let_expire(harness, peer, request())).fields[39] == "91"
        peer.send(request(mti="0101"))
        await until(lambda: len(harness.owners.submitted) == 2)
        harness.owners.gate.set()
        assert (await peer.receive()).fields[39] == "00"
        await until(lambda: not harness.respondent._open_commands)
        assert harness.owners.late_reversals == []


async def test_exchanges_of_one_message_share_one_command(card_secrets: CardSecrets) -> None:
    async with running_edge(card_secrets) as harness, harness.peer() as peer:
        harness.owners.gate.clear()
        peer.send(request(), request(mti="0101"))
        await until(lambda: len(harness.owners.submitted) == 2)
        first, second = harness.owners.authorizations
        assert first == second
        harness.owners.gate.set()
        assert [(await peer.receive()).fields[39] for _ in range(2)] == ["00", "00"]
