"""A link that connects keeps its connections, and answers on another one what a lost one leaves open."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from actors.network.card_secrets import CardSecrets
from engine.iso8583.message import as_repeat
from engine.iso8583.respond import ECHO_TEST, SIGN_OFF
from tests.support.actors.network.links import (
    Authority,
    Processor,
    confirm,
    entry_of,
    managing,
    processor,
    running_link,
)
from tests.support.actors.network.support import request, until


async def test_it_keeps_the_number_of_connections(card_secrets: CardSecrets) -> None:
    async with processor() as peers:
        entry = entry_of(direction="connect", port=peers.port, connections=3, sign_on="required")
        async with running_link(card_secrets, entry) as harness:
            connected = [await peers.signed_on() for _ in range(3)]
            await until(lambda: harness.edge.signed_on == 3)
            await connected[0].close()
            await peers.signed_on()
            await until(lambda: harness.edge.signed_on == 3)
            assert harness.edge.connected == 3


async def test_open_message_of_a_lost_connection_is_answered_on_another(card_secrets: CardSecrets) -> None:
    async with processor() as peers:
        entry = entry_of(direction="connect", port=peers.port, connections=2, sign_on="required")
        async with running_link(card_secrets, entry) as harness:
            lost, other = await peers.signed_on(), await peers.signed_on()
            await harness.send_undecided(lost, request(1))
            await lost.close()
            await until(lambda: harness.edge.signed_on < 2)
            harness.owners.gate.set()
            answer = await other.receive()
            assert (answer.mti, answer.fields[11], answer.fields[39]) == ("0110", "000001", "00")
            assert harness.edge.counts.rerouted == 1
            # The repeat on any connection gets the same answer and has no second effect.
            assert await other.ask(as_repeat(request(1))) == answer
            assert len({command.command_key for command in harness.owners.submitted}) == 1


async def test_message_of_the_only_connection_is_answered_to_its_repeat(card_secrets: CardSecrets) -> None:
    async with processor() as peers:
        entry = entry_of(direction="connect", port=peers.port, connections=1, sign_on="required")
        async with running_link(card_secrets, entry) as harness:
            lost = await peers.signed_on()
            await harness.send_undecided(lost, request(1))
            await lost.close()
            await until(lambda: not harness.edge.signed_on)
            harness.owners.gate.set()
            await until(lambda: harness.respondent.counts.answered == 1)
            again = await peers.signed_on()
            assert (await again.ask(as_repeat(request(1)))).fields[39] == "00"
            assert harness.edge.counts.rerouted == 0


async def test_answer_of_a_listening_link_never_goes_to_another_peer(card_secrets: CardSecrets) -> None:
    async with running_link(card_secrets, entry_of()) as harness, harness.peer() as other:
        lost = await harness.connect()
        await harness.send_undecided(lost, request(1))
        await lost.close()
        await until(lambda: harness.edge.connected == 1)
        harness.owners.gate.set()
        await until(lambda: harness.respondent.counts.answered == 1)
        assert (await other.ask(managing(ECHO_TEST))).mti == "0810"


async def test_it_reconnects_until_the_peer_is_there(card_secrets: CardSecrets) -> None:
    async with processor() as peers:
        port = peers.port
    entry = entry_of(direction="connect", port=port, connections=1, sign_on="required")
    async with running_link(card_secrets, entry) as harness:
        await until(lambda: harness.edge.counts.last_error is not None)
        assert harness.edge.counts.last_error == "cannot open: Connection refused"
        assert harness.edge.state == "down"
        late = Processor()
        await late.start(port=port)
        await late.signed_on()
        await until(lambda: harness.edge.state == "up")
        await late.stop()


async def test_stop_closes_the_connections_after_their_answers(card_secrets: CardSecrets) -> None:
    async with processor() as peers:
        entry = entry_of(direction="connect", port=peers.port, connections=1, sign_on="none")
        async with running_link(card_secrets, entry) as harness:
            peer = await peers.accept()
            await harness.send_undecided(peer, request(1))
            stopping = asyncio.create_task(harness.edge.stop())
            harness.owners.gate.set()
            assert (await peer.receive()).fields[39] == "00"
            assert await peer.is_closed()
            await stopping


async def test_signed_off_link_drains_and_connects_again_after_the_sign_on(card_secrets: CardSecrets) -> None:
    async with processor() as peers:
        entry = entry_of(direction="connect", port=peers.port, connections=1, sign_on="required")
        async with running_link(card_secrets, entry) as harness:
            peer = await peers.signed_on()
            await harness.send_undecided(peer, request(1))
            await harness.edge.sign_off()
            assert await confirm(peer) == SIGN_OFF
            peer.send(request(2))
            assert (await peer.receive()).fields[39] == "91"
            assert harness.edge.state == "draining"
            harness.owners.gate.set()
            assert (await peer.receive()).fields[39] == "00"
            assert await peer.is_closed()
            await until(lambda: harness.edge.state == "signed_off")
            assert harness.edge.counts.screened == {"signed_off": 1}
            await harness.edge.sign_on()
            await peers.signed_on()
            await until(lambda: harness.edge.state == "up")


# TLS


async def test_both_sides_present_certificates(card_secrets: CardSecrets, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    async with processor(authority.server("processor.test")) as peers:
        tls = authority.tls(server_name="processor.test")
        entry = entry_of(direction="connect", port=peers.port, connections=1, sign_on="required", tls=tls)
        async with running_link(card_secrets, entry):
            peer = await peers.signed_on()
            certificate = peer.writer.get_extra_info("peercert")
            assert ("DNS", "stanchion.test") in certificate["subjectAltName"]
            assert (await peer.ask(request())).fields[39] == "00"


@pytest.mark.parametrize("fault", ["name", "authority"])
async def test_peer_with_another_name_or_authority_is_refused(
    card_secrets: CardSecrets, tmp_path: Path, fault: str
) -> None:
    (tmp_path / "other").mkdir()
    authority = Authority(tmp_path)
    issuer = authority if fault == "name" else Authority(tmp_path / "other")
    async with processor(issuer.server("impostor.test" if fault == "name" else "processor.test")) as peers:
        tls = authority.tls(server_name="processor.test")
        entry = entry_of(direction="connect", port=peers.port, connections=1, sign_on="required", tls=tls)
        async with running_link(card_secrets, entry) as harness:
            await until(lambda: harness.edge.counts.last_error is not None)
            assert harness.edge.counts.last_error is not None
            assert harness.edge.counts.last_error.startswith("certificate refused: ")
            assert harness.edge.connected == 0
