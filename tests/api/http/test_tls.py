"""The API over TLS: handshakes, connection limits and headers."""

from __future__ import annotations

import asyncio
import ssl
from ipaddress import ip_network
from pathlib import Path

import httpx2
import trustme

from actors.connections import ConnectionLimits, ConnectionTable
from actors.tls import ServerTls
from tests.support.api.driver import Caller
from tests.support.api.stack import Installation, served

AUTHORITY = trustme.CA()
HSTS = "strict-transport-security"


def certificate(folder: Path) -> ServerTls:
    issued = AUTHORITY.issue_cert("127.0.0.1")
    chain, key = folder / "chain.pem", folder / "key.pem"
    chain.write_bytes(b"".join(each.bytes() for each in issued.cert_chain_pems))
    key.write_bytes(issued.private_key_pem.bytes())
    return ServerTls(chain, key)


def trusting() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    AUTHORITY.configure_trust(context)
    return context


async def test_api_serves_https(running: Installation, acme: Caller, tmp_path: Path) -> None:
    async with (
        served(running.app, tls=certificate(tmp_path)) as address,
        httpx2.AsyncClient(base_url=address, verify=trusting()) as http,
    ):
        acme.http = http
        response = await acme.send("GET", "/v1/programs")
        assert response.status_code == 200
        assert response.headers[HSTS] == "max-age=31536000"
        assert (await acme.programme())["currency"] == "EUR"
        page = await http.get("/docs/openapi.json")
        assert len(page.content) > 64 * 1024


async def test_unfinished_head_over_tls_is_cut(running: Installation, tmp_path: Path) -> None:
    table = ConnectionTable(ConnectionLimits(head_seconds=0.1, linger_seconds=0.1, sweep_seconds=0.02))
    async with served(running.app, table=table, tls=certificate(tmp_path)) as address, asyncio.timeout(60):
        port = int(address.rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusting())
        writer.write(b"GET /healthz HT")
        assert (await reader.readline()).startswith(b"HTTP/1.1 408 ")
        while table.count:  # noqa: ASYNC110 -- the other end is a socket
            await asyncio.sleep(0.01)
        writer.close()


async def test_hsts_is_sent_behind_a_trusted_tls_proxy(running: Installation) -> None:
    over_tls = {"X-Forwarded-Proto": "https"}
    async with running.variant(trusted_proxies=(ip_network("127.0.0.0/8"),)) as http:
        assert HSTS in (await http.get("/healthz", headers=over_tls)).headers
        assert HSTS not in (await http.get("/healthz")).headers
    assert HSTS not in (await running.http.get("/healthz", headers=over_tls)).headers
