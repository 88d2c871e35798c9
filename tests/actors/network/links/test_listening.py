"""Who may connect to a link that listens: networks, certificates by name, TLS versions, quotas."""

from __future__ import annotations

import asyncio
import ssl
from ipaddress import ip_network
from pathlib import Path

import pytest

from actors.network.card_secrets import CardSecrets
from actors.network.edge_times import EdgeTimes
from actors.network.links import listening, tls
from actors.network.links.listening import is_allowed
from actors.tls import ReloadedContext
from engine.iso8583.respond import SIGN_OFF
from tests.support.actors.network.links import Authority, confirm, entry_of, running_link, state_of
from tests.support.actors.network.support import Harness, Peer, request, until


async def tls_peer(harness: Harness, context: ssl.SSLContext) -> Peer:
    reader, writer = await asyncio.open_connection(
        *harness.address, ssl=context, server_hostname="stanchion.test"
    )
    return Peer(reader, writer)


async def is_refused(harness: Harness, context: ssl.SSLContext) -> bool:
    """Whether no answer arrives: with TLS 1.3 a client's handshake ends before the server's."""
    try:
        peer = await tls_peer(harness, context)
        try:
            await peer.ask(request(9))
        finally:
            peer.writer.transport.abort()
    except (ssl.SSLError, ConnectionError, asyncio.IncompleteReadError):
        return True
    return False


@pytest.mark.parametrize(
    ("networks", "address", "allowed"),
    [
        ((), "203.0.113.9", True),
        (("192.0.2.0/24",), "192.0.2.7", True),
        (("192.0.2.0/24",), "198.51.100.7", False),
        (("192.0.2.0/24",), "::ffff:192.0.2.7", True),
        (("192.0.2.0/24", "2001:db8::/32"), "2001:db8::1%eth0", True),
        (("2001:db8::/32",), "192.0.2.7", False),
        (("192.0.2.0/24",), "", False),
    ],
)
def test_allowed_networks(networks: tuple[str, ...], address: str, allowed: bool) -> None:
    assert is_allowed([ip_network(each) for each in networks], address) is allowed


async def test_connection_from_another_network_is_closed(card_secrets: CardSecrets) -> None:
    entry = entry_of(allow=(ip_network("192.0.2.0/24"),))
    async with running_link(card_secrets, entry) as harness:
        peer = await harness.connect()
        assert await peer.is_closed()
        assert harness.edge.counts.screened == {"address": 1}
        assert harness.edge.connected == 0
        await peer.close()


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_client_with_an_accepted_name_is_served(
    card_secrets: CardSecrets, tmp_path: Path, version: ssl.TLSVersion
) -> None:
    authority = Authority(tmp_path)
    entry = entry_of(tls=authority.tls(client_names=("processor.test",)))
    async with running_link(card_secrets, entry) as harness:
        peer = await tls_peer(harness, authority.client("processor.test", maximum=version))
        assert (await peer.ask(request())).fields[39] == "00"
        await peer.close()


@pytest.mark.parametrize("fault", ["name", "no_certificate", "authority", "version", "plain"])
async def test_other_clients_are_refused_and_reach_no_owner(
    card_secrets: CardSecrets, tmp_path: Path, fault: str
) -> None:
    (tmp_path / "other").mkdir()
    authority, other = Authority(tmp_path), Authority(tmp_path / "other")
    minimum = "1.3" if fault == "version" else "1.2"
    entry = entry_of(tls=authority.tls(client_names=("processor.test",), min_version=minimum))
    async with running_link(card_secrets, entry) as harness:
        if fault == "plain":
            peer = await harness.connect()
            peer.send(request())
            assert await peer.is_closed() or not harness.owners.submitted
            await peer.close()
        else:
            context = {
                "name": lambda: authority.client("stranger.test"),
                "no_certificate": lambda: authority.client(None),
                "authority": lambda: _trusting(other.client("processor.test"), authority),
                "version": lambda: authority.client("processor.test", maximum=ssl.TLSVersion.TLSv1_2),
            }[fault]()
            assert await is_refused(harness, context)
        assert harness.owners.submitted == []
        assert harness.edge.counts.screened == ({"client_name": 1} if fault == "name" else {})


def _trusting(context: ssl.SSLContext, authority: Authority) -> ssl.SSLContext:
    context.load_verify_locations(authority.ca)
    return context


async def test_replaced_certificate_is_served_without_a_dropped_message(
    card_secrets: CardSecrets, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tls, "ReloadedContext", _reloaded_at_once)
    authority = Authority(tmp_path)
    entry = entry_of(tls=authority.tls())
    async with running_link(card_secrets, entry) as harness:
        before = await tls_peer(harness, authority.client("processor.test"))
        await harness.send_undecided(before, request(1))
        served = before.writer.get_extra_info("ssl_object").getpeercert()["serialNumber"]
        authority.issue("stanchion", "stanchion.test")
        after = await tls_peer(harness, authority.client("processor.test"))
        assert after.writer.get_extra_info("ssl_object").getpeercert()["serialNumber"] != served
        harness.owners.gate.set()
        assert (await before.receive()).fields[39] == "00"
        assert (await before.ask(request(2))).fields[39] == "00"
        assert (await after.ask(request(3))).fields[39] == "00"
        for peer in (before, after):
            await peer.close()


def _reloaded_at_once(files: object, build: object) -> ReloadedContext:
    return ReloadedContext(files, build, reload_seconds=0.0)  # type: ignore[arg-type]


async def test_handshakes_of_one_address_are_limited(
    card_secrets: CardSecrets, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from actors.connections import ConnectionLimits

    monkeypatch.setattr(listening, "HANDSHAKES", ConnectionLimits(connections_max=2, per_address_max=2))
    authority = Authority(tmp_path)
    async with running_link(card_secrets, entry_of(tls=authority.tls())) as harness:
        silent = [await harness.connect() for _ in range(2)]
        refused = await harness.connect()
        assert await refused.is_closed()
        for peer in (*silent, refused):
            peer.writer.transport.abort()


async def test_signed_off_listener_drains_and_refuses_connections(card_secrets: CardSecrets) -> None:
    async with running_link(card_secrets, entry_of()) as harness:
        peer = await harness.connect()
        await harness.send_undecided(peer, request(1))
        await harness.edge.sign_off()
        assert await confirm(peer) == SIGN_OFF
        peer.send(request(2))
        assert (await peer.receive()).fields[39] == "91"
        with pytest.raises(ConnectionError):
            await _connect_until_refused(harness)
        harness.owners.gate.set()
        assert (await peer.receive()).fields[39] == "00"
        assert await peer.is_closed()
        await peer.close()
        await until(lambda: harness.edge.state == "signed_off")
        await harness.edge.sign_on()
        async with harness.peer() as again:
            assert (await again.ask(request(2))).fields[39] == "00"


async def test_peer_that_does_not_answer_the_sign_off_gets_its_open_answers(
    card_secrets: CardSecrets,
) -> None:
    async with running_link(card_secrets, entry_of(), times=EdgeTimes(reply_seconds=0.05)) as harness:
        silent, busy = await harness.connect(), await harness.connect()
        await harness.send_undecided(busy, request(1))
        await harness.edge.sign_off()
        assert (await silent.receive()).fields[70] == SIGN_OFF
        assert await silent.is_closed()
        assert harness.edge.counts.last_error is None
        harness.owners.gate.set()
        assert (await busy.receive()).fields[70] == SIGN_OFF
        assert (await busy.receive()).fields[39] == "00"
        assert await busy.is_closed()
        for peer in (silent, busy):
            await peer.close()


async def _connect_until_refused(harness: Harness) -> None:
    while True:
        late = await harness.connect()
        await late.close()


async def test_link_can_start_signed_off(card_secrets: CardSecrets) -> None:
    async with running_link(card_secrets, entry_of(), signed_off=True) as harness:
        assert state_of(harness) == "signed_off"
        await harness.edge.sign_on()
        assert state_of(harness) == "up"


async def test_messages_above_the_quota_of_a_link_get_91(card_secrets: CardSecrets) -> None:
    """Other classes and repeats are accepted, as under overload."""
    async with running_link(card_secrets, entry_of(in_flight=2)) as harness, harness.peer() as peer:
        await harness.send_undecided(peer, request(1), request(2))
        assert (await peer.ask(request(3))).fields[39] == "91"
        peer.send(request(1, "0101"))
        await until(lambda: len(harness.owners.submitted) == 3)
        assert harness.edge.counts.screened == {"in_flight": 1}
        harness.owners.gate.set()
        assert [(await peer.receive()).fields[39] for _ in range(3)] == ["00"] * 3


async def test_bytes_above_the_quota_are_read_later(card_secrets: CardSecrets) -> None:
    entry = entry_of(bytes_per_second=100_000)
    async with running_link(card_secrets, entry) as harness, harness.peer() as peer:
        peer.send(*(request(stan) for stan in range(1_000)))
        answers = [await peer.receive() for _ in range(1_000)]
        assert {answer.fields[39] for answer in answers} == {"00"}
        assert harness.edge.counts.bytes_received > 100_000
