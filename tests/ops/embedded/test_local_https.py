"""The local authority and its servers, called through the egress as an installation calls them."""

from __future__ import annotations

import asyncio
import ssl
import stat
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path

import pytest

from actors.egress.answers import EgressError, Received
from actors.egress.client import Egress
from actors.egress.receivers import FOLDER, LocalReceivers, permitted
from actors.egress.target import TargetRefusedError
from actors.settings import Settings
from ops.embedded.local_https import (
    AUTHORITY_FILE,
    KEY_FILE,
    Answer,
    LocalHttpsError,
    Request,
    cut_off,
    local_receiver,
    make_authority,
    server_side,
    serving,
    with_local_egress,
)
from ops.embedded.ports import free_port


def egress_of(settings: Settings) -> Egress:
    receivers = LocalReceivers(settings.var_dir)
    return Egress(settings.egress_allow, settings.egress_ca_file, receivers=receivers)


async def post(egress: Egress, url: str, timeout_seconds: float = 5, *, live: bool = False) -> Received:
    return await egress.post(
        url, b'{"a": 1}', {"X-Test": "1"}, timeout_seconds=timeout_seconds, body_bytes_max=100, live=live
    )


async def test_an_installation_on_loopback_can_call_its_local_receivers(tmp_path: Path) -> None:
    egress = egress_of(with_local_egress(Settings.load(var_dir=tmp_path)))
    arrived: list[Request] = []

    async def handler(request: Request) -> Answer:
        arrived.append(request)
        return Answer(201, b"thanks", {"X-Answer": "2"})

    async with local_receiver(tmp_path, handler) as url:
        assert await post(egress, f"{url}/hook?a=%20b") == Received(201, b"thanks", truncated=False)
    await egress.close()
    [request] = arrived
    assert (request.method, request.path, request.body) == ("POST", "/hook?a=%20b", b'{"a": 1}')
    assert request.headers["x-test"] == "1"


async def test_a_handler_can_close_the_connection_and_can_be_slow(tmp_path: Path) -> None:
    egress = egress_of(with_local_egress(Settings.load(var_dir=tmp_path)))
    ended = asyncio.Event()

    async def handler(request: Request) -> Answer | None:
        if request.path == "/down":
            return None
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return None

    async with local_receiver(tmp_path, handler) as url:
        for path, reason in (("/down", "disconnected"), ("/slow", "timeout")):
            with pytest.raises(EgressError) as failed:
                await post(egress, url + path, 0.3)
            assert failed.value.reason == reason
        await asyncio.wait_for(ended.wait(), 60)
    await egress.close()


@pytest.mark.parametrize("closings", [0, 1, 2])
async def test_a_connection_can_be_aborted_after_it_was_closed(tmp_path: Path, closings: int) -> None:
    make_authority(tmp_path)
    connected: asyncio.Queue[asyncio.StreamWriter] = asyncio.Queue()

    async def take(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await connected.put(writer)

    server = await asyncio.start_server(take, "127.0.0.1", 0, ssl=server_side(tmp_path))
    trust = ssl.create_default_context(cafile=str(tmp_path / AUTHORITY_FILE))
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname()[:2], ssl=trust)
    accepted = await connected.get()
    transport = accepted.transport
    assert isinstance(transport, asyncio.Transport)
    for _ in range(closings):
        transport.close()
    cut_off(transport)
    assert transport.is_closing()
    with suppress(OSError):
        assert await reader.read() == b""
    # Python 3.14 takes an aborted TLS connection for an open one once it is lost.
    accepted.close()
    writer.close()
    server.close()


async def test_another_installation_does_not_trust_it(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    make_authority(here)
    egress = egress_of(with_local_egress(Settings.load(var_dir=there)))

    async def handler(_request: Request) -> Answer:
        return Answer()

    async with serving(server_side(here), handler) as url:
        port = int(url.rpartition(":")[2])
        with permitted(there, "127.0.0.1", port), pytest.raises(EgressError) as failed:
            await post(egress, url)
    await egress.close()
    assert failed.value.reason == "tls"


def test_the_authority_is_created_once_and_its_key_is_private(tmp_path: Path) -> None:
    file = make_authority(tmp_path)
    first = file.read_bytes(), (tmp_path / KEY_FILE).read_bytes()
    assert make_authority(tmp_path) == file == tmp_path / AUTHORITY_FILE
    assert (file.read_bytes(), (tmp_path / KEY_FILE).read_bytes()) == first
    assert stat.S_IMODE((tmp_path / KEY_FILE).stat().st_mode) == 0o600
    assert b"PRIVATE" not in first[0]
    ssl.create_default_context(cafile=file)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.9", "::1", "localhost"])
def test_local_authority_is_trusted_where_the_api_listens_on_loopback(tmp_path: Path, host: str) -> None:
    settings = with_local_egress(Settings.load(var_dir=tmp_path, api_host=host))
    assert settings.egress_allow == ()
    assert settings.egress_ca_file == tmp_path / AUTHORITY_FILE


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "192.168.1.5", "api.example.com"])
def test_no_authority_is_trusted_where_others_can_reach_the_api(tmp_path: Path, host: str) -> None:
    settings = with_local_egress(Settings.load(var_dir=tmp_path, api_host=host))
    assert settings.egress_allow == ()
    assert settings.egress_ca_file is None
    assert not (tmp_path / KEY_FILE).exists()


async def refused(egress: Egress, url: str, *, live: bool) -> bool:
    try:
        await post(egress, url, live=live)
    except EgressError as failure:
        return failure.reason == "target_refused"
    return False


async def test_loopback_is_permitted_only_for_a_running_receiver_in_test_mode(tmp_path: Path) -> None:
    egress = egress_of(with_local_egress(Settings.load(var_dir=tmp_path)))

    async def handler(_request: Request) -> Answer:
        return Answer()

    async with (
        local_receiver(tmp_path, handler) as url,
        serving(server_side(tmp_path), handler) as unasked,
    ):
        assert not await refused(egress, url, live=False)
        await egress.check(url, live=False)
        assert await refused(egress, url, live=True)
        assert await refused(egress, unasked, live=False)
        assert await refused(egress, url.replace("127.0.0.1", "127.0.0.2"), live=False)
        for live, target in ((True, url), (False, unasked)):
            with pytest.raises(TargetRefusedError):
                await egress.check(target, live=live)
    assert await refused(egress, url, live=False)
    await egress.close()


def test_the_permission_of_a_killed_receiver_is_void(tmp_path: Path) -> None:
    # A killed process leaves a file without a lock.
    receivers, here = LocalReceivers(tmp_path), ip_address("127.0.0.1")
    with permitted(tmp_path, "127.0.0.1", 4000):
        assert receivers.permits(here, 4000)
        [file] = (tmp_path / FOLDER).iterdir()
    assert not file.exists()
    file.touch()
    assert not receivers.permits(here, 4000)
    with permitted(tmp_path, "127.0.0.1", 4000):
        assert receivers.permits(here, 4000)


def test_other_addresses_cannot_be_permitted(tmp_path: Path) -> None:
    with permitted(tmp_path, "10.0.0.1", 4000):
        assert not LocalReceivers(tmp_path).permits(ip_address("10.0.0.1"), 4000)


def test_an_authority_of_the_operator_is_kept(tmp_path: Path) -> None:
    own = tmp_path / "own.pem"
    own.write_text("")
    settings = with_local_egress(Settings.load(var_dir=tmp_path, egress_ca_file=own))
    assert settings.egress_ca_file == own
    assert settings.egress_allow == ()


def test_without_an_authority_there_is_no_server(tmp_path: Path) -> None:
    with pytest.raises(LocalHttpsError, match="stanchion up"):
        server_side(tmp_path)
    make_authority(tmp_path)
    (tmp_path / KEY_FILE).write_text("not a key")
    with pytest.raises(LocalHttpsError, match="cannot be read"):
        server_side(tmp_path)


async def test_a_taken_port_is_one_line(tmp_path: Path) -> None:
    make_authority(tmp_path)
    tls, port = server_side(tmp_path), free_port()

    async def handler(_request: Request) -> Answer:
        return Answer()

    async with serving(tls, handler, port):
        with pytest.raises(LocalHttpsError, match="cannot listen"):
            async with serving(tls, handler, port):
                pass
