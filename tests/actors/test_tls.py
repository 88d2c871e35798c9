"""TLS of servers: real handshakes, replaced certificate files, and unusable files."""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import ClassVar

import pytest
import trustme

from actors.connections import Admission, ConnectionLimits, ConnectionTable
from actors.settings import Settings, SettingsError
from actors.tls import ServerTls, TlsListener

SECONDS_MAX = 60.0
AUTHORITY = trustme.CA()


class Files:
    """A certificate and its key on disk."""

    def __init__(self, folder: Path) -> None:
        self.certificate, self.key = folder / "tls.crt", folder / "tls.key"
        self.write("first.test")

    def write(self, name: str) -> None:
        """Replace both files with a new certificate for ``name``."""
        issued = AUTHORITY.issue_cert(name)
        self._replace(self.certificate, b"".join(each.bytes() for each in issued.cert_chain_pems))
        self._replace(self.key, issued.private_key_pem.bytes())

    def _replace(self, path: Path, content: bytes) -> None:
        fresh = path.with_suffix(".new")
        fresh.write_bytes(content)
        fresh.replace(path)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


class Echo(asyncio.Protocol):
    """Sends all received data back."""

    open: ClassVar[set[asyncio.Transport]] = set()

    def __init__(self, admission: Admission) -> None:
        self._admission = admission

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self.open.add(transport)

    def data_received(self, data: bytes) -> None:
        self._transport.write(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self.open.discard(self._transport)
        self._admission.end()


@asynccontextmanager
async def listening(
    tls: ServerTls, table: ConnectionTable | None = None, handshake_seconds: float = SECONDS_MAX
) -> AsyncIterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        connections = table or ConnectionTable(ConnectionLimits())
        serving = TlsListener(listener, Echo, tls, connections, handshake_seconds=handshake_seconds)
        try:
            async with asyncio.timeout(SECONDS_MAX):
                yield listener.getsockname()[1]
        finally:
            serving.close()
            await serving.wait_closed()
            for transport in list(Echo.open):
                transport.abort()
            await emptied(connections)


def trusting(minimum: ssl.TLSVersion | None = None, maximum: ssl.TLSVersion | None = None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    AUTHORITY.configure_trust(context)
    if minimum and maximum:
        context.minimum_version, context.maximum_version = minimum, maximum
    return context


Socket = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@asynccontextmanager
async def opened(port: int, name: str, context: ssl.SSLContext | None = None) -> AsyncIterator[Socket]:
    tls = context or trusting()
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=tls, server_hostname=name)
    try:
        yield reader, writer
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


async def echoed(connection: Socket) -> None:
    connection[1].write(b"ping")
    assert await connection[0].readexactly(4) == b"ping"


async def refused(port: int, name: str, context: ssl.SSLContext | None = None) -> None:
    with pytest.raises((ssl.SSLError, ConnectionError)):
        async with opened(port, name, context):
            pass


async def emptied(table: ConnectionTable) -> None:
    while table.count:  # noqa: ASYNC110 -- the other end is a socket
        await asyncio.sleep(0.01)


async def test_first_bytes_after_the_handshake_arrive(files: Files) -> None:
    async with listening(ServerTls(files.certificate, files.key)) as port:
        for _ in range(20):
            async with opened(port, "first.test") as connection:
                await echoed(connection)


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1_1 is deprecated:DeprecationWarning")
async def test_tls_1_1_is_refused_and_1_2_served(files: Files) -> None:
    async with listening(ServerTls(files.certificate, files.key)) as port:
        old, modern = ssl.TLSVersion.TLSv1_1, ssl.TLSVersion.TLSv1_2
        await refused(port, "first.test", trusting(old, old))
        async with opened(port, "first.test", trusting(modern, modern)) as connection:
            await echoed(connection)


async def test_replaced_files_serve_new_connections_and_keep_open_ones(files: Files) -> None:
    async with (
        listening(ServerTls(files.certificate, files.key, reload_seconds=0.0)) as port,
        opened(port, "first.test") as before,
    ):
        files.write("second.test")
        async with opened(port, "second.test") as after:
            await echoed(after)
        await refused(port, "first.test")
        await echoed(before)


async def test_mismatched_files_keep_the_previous_certificate(files: Files) -> None:
    async with listening(ServerTls(files.certificate, files.key, reload_seconds=0.0)) as port:
        key = files.key.read_bytes()
        files.write("second.test")
        files.key.write_bytes(key)
        async with opened(port, "first.test") as connection:
            await echoed(connection)
        files.certificate.unlink()
        async with opened(port, "first.test") as connection:
            await echoed(connection)
        files.write("third.test")
        async with opened(port, "third.test") as connection:
            await echoed(connection)


def test_files_are_checked_once_in_an_interval(files: Files) -> None:
    clock = [0.0]
    tls = ServerTls(files.certificate, files.key, reload_seconds=10.0, clock=lambda: clock[0])
    before = tls.context()
    files.write("second.test")
    clock[0] = 9.9
    assert tls.context() is before
    clock[0] = 10.0
    assert tls.context() is not before


async def test_connections_in_handshake_are_counted_and_cut(files: Files) -> None:
    table = ConnectionTable(ConnectionLimits(per_address_max=1))
    tls = ServerTls(files.certificate, files.key)
    async with listening(tls, table, handshake_seconds=1.0) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while not table.count:  # noqa: ASYNC110 -- the other end is a socket
            await asyncio.sleep(0.01)
        await refused(port, "first.test")
        # The silent connection is closed without an answer and no longer counted.
        assert await reader.read() == b""
        writer.close()
        await emptied(table)
    async with listening(tls, table) as port, opened(port, "first.test") as connection:
        await echoed(connection)


async def test_plain_text_on_the_tls_port_is_cut(files: Files) -> None:
    table = ConnectionTable(ConnectionLimits())
    async with listening(ServerTls(files.certificate, files.key), table) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        with suppress(ConnectionError):
            await reader.read()
        writer.close()
        await emptied(table)


def test_settings_without_files_mean_plain_http() -> None:
    settings = Settings.load()
    assert ServerTls.from_settings(settings) is None
    assert settings.web_scheme == "http"
    assert settings.vision_address.startswith("http://")


def test_settings_with_files_mean_https(files: Files) -> None:
    settings = Settings.load(tls_cert_file=files.certificate, tls_key_file=files.key)
    assert ServerTls.from_settings(settings) is not None
    assert settings.vision_address.startswith("https://")


def test_metrics_port_has_files_of_its_own(files: Files) -> None:
    settings = Settings.load(metrics_tls_cert_file=files.certificate, metrics_tls_key_file=files.key)
    assert ServerTls.of_metrics(settings) is not None
    assert ServerTls.from_settings(settings) is None
    assert (settings.metrics_scheme, settings.web_scheme) == ("https", "http")
    files.key.write_bytes(b"hello")
    with pytest.raises(
        SettingsError, match=r"^STANCHION_METRICS_TLS_CERT_FILE, STANCHION_METRICS_TLS_KEY_FILE: "
    ):
        ServerTls.of_metrics(settings)
    with pytest.raises(SettingsError, match=r"STANCHION_METRICS_TLS_KEY_FILE: .* set together"):
        Settings.load(metrics_tls_cert_file=files.certificate)


@pytest.mark.parametrize("given", ["tls_cert_file", "tls_key_file"])
def test_certificate_without_key_is_refused(files: Files, given: str) -> None:
    with pytest.raises(SettingsError, match=r"STANCHION_TLS_KEY_FILE: .* set together"):
        Settings.load(**{given: files.certificate})


def test_missing_file_is_refused(files: Files, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="STANCHION_TLS_CERT_FILE: no such file"):
        Settings.load(tls_cert_file=tmp_path / "none", tls_key_file=files.key)


UNUSABLE = {
    "certificate is not PEM": (b"hello", None),
    "key is not PEM": (None, b"hello"),
    "key of another certificate": (None, trustme.CA().issue_cert("x.test").private_key_pem.bytes()),
}


@pytest.mark.parametrize(("certificate", "key"), UNUSABLE.values(), ids=UNUSABLE.keys())
def test_unusable_files_are_named_in_one_line(
    files: Files, certificate: bytes | None, key: bytes | None
) -> None:
    if certificate is not None:
        files.certificate.write_bytes(certificate)
    if key is not None:
        files.key.write_bytes(key)
    settings = Settings.load(tls_cert_file=files.certificate, tls_key_file=files.key)
    with pytest.raises(SettingsError) as refused:
        ServerTls.from_settings(settings)
    assert re.fullmatch(r"STANCHION_TLS_CERT_FILE, STANCHION_TLS_KEY_FILE: [^\n]+", str(refused.value))


def test_folder_as_certificate_is_refused(files: Files, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="STANCHION_TLS_CERT_FILE: no such file"):
        Settings.load(tls_cert_file=tmp_path, tls_key_file=files.key)
