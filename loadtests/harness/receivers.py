"""Webhook receivers of a benchmark: their processes, the endpoints that point at them, and the arrivals."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import IO, Any, Final, Self

import msgspec
import trustme

from loadtests.generators.http import Api
from loadtests.harness.children import Helper
from loadtests.harness.servers import BenchServers

TYPE: Final = "card_product.created"
"""The event type that the publisher writes (``ops.bench.publisher``)."""
HOST: Final = "127.0.0.1"
CONNECTIONS: Final = 2


class Arrivals(msgspec.Struct):
    """Deliveries that all receivers got in a window."""

    arrived: list[float] = []
    """Instants, in monotonic seconds."""
    age_ms: list[float] = []
    """The age of each event when it arrived."""
    hung: int = 0
    """Requests that got no answer."""


class Trust(msgspec.Struct, frozen=True):
    """A certificate authority of the benchmark, and a certificate for its receivers."""

    authority: Path
    certificate: Path

    @property
    def environment(self) -> dict[str, str]:
        """Variables under which an installation calls receivers on this machine."""
        return {
            "STANCHION_EGRESS_ALLOW": f"{HOST}/32",
            "STANCHION_EGRESS_CA_FILE": str(self.authority),
        }


def make_trust(folder: Path) -> Trust:
    """Write an authority and a certificate for this machine into ``folder``."""
    trust = Trust(folder / "ca.pem", folder / "receiver.pem")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(trust.authority))
    authority.issue_cert(HOST).private_key_and_cert_chain_pem.write_to_path(str(trust.certificate))
    return trust


class Receivers:
    """An async context manager beside an installation: receivers listen, endpoints exist. ``processes``
    receivers share the endpoints."""

    def __init__(
        self, servers: BenchServers, trust: Trust, errors: IO[bytes], *, processes: int, healthy: int
    ) -> None:
        """``healthy``: endpoints of each of two tenants that answer; one more of each hangs, one refuses."""
        self._servers = servers
        self._trust = trust
        self._errors = errors
        self._processes = processes
        self.healthy = healthy
        self._stack = AsyncExitStack()
        self._helpers: list[Helper] = []
        self._apis: list[Api] = []
        self._bad: list[tuple[Api, str]] = []

    @property
    def fan_out(self) -> int:
        """Deliveries to healthy endpoints for one event of each tenant."""
        return self.healthy * len(self._apis)

    @property
    def pids(self) -> tuple[int, ...]:
        return tuple(helper.pid for helper in self._helpers)

    async def __aenter__(self) -> Self:
        try:
            # Bound and not listening: the port refuses connections and no other process can take it.
            refusing = self._stack.enter_context(socket.socket())
            refusing.bind((HOST, 0))
            ports = [await self._receiver() for _ in range(self._processes)]
            for client in self._tenants():
                await self._endpoints(client, ports, refusing.getsockname()[1])
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(self, *_exception: object) -> None:
        await self._stack.aclose()

    async def set_bad(self, enabled: bool) -> None:
        """Enable or disable the endpoints that hang and refuse."""
        body = {"status": "enabled" if enabled else "disabled"}
        for api, endpoint_id in self._bad:
            await api.call("PATCH", f"/v1/webhook-endpoints/{endpoint_id}", body)

    async def take(self) -> Arrivals:
        """The arrivals since the last call."""
        arrivals = Arrivals()
        for answer in await asyncio.gather(*(helper.ask("take") for helper in self._helpers)):
            part = msgspec.convert(answer, Arrivals)
            arrivals.arrived += part.arrived
            arrivals.age_ms += part.age_ms
            arrivals.hung += part.hung
        return arrivals

    async def _receiver(self) -> int:
        helper = await self._servers.helper(self._errors, "ops.bench.receiver", str(self._trust.certificate))
        self._helpers.append(helper)
        port: int = await helper.ask("open")
        return port

    def _tenants(self) -> list[dict[str, Any]]:
        """Two tenants' administrators in test mode."""
        admins = [
            each for each in self._servers.run["tenants"] if (each["mode"], each["role"]) == ("test", "admin")
        ]
        return list({each["name"]: each for each in admins}.values())[:2]

    async def _endpoints(self, client: dict[str, Any], ports: Sequence[int], refusing: int) -> None:
        api = Api(self._servers.run["base_url"], CONNECTIONS)
        await api.open(client)
        self._stack.push_async_callback(api.close)
        self._apis.append(api)
        for number in range(self.healthy):
            await _create(api, f"https://{HOST}:{ports[number % len(ports)]}/endpoint/{number}")
        for url in (f"https://{HOST}:{ports[0]}/hang", f"https://{HOST}:{refusing}/refuse"):
            self._bad.append((api, await _create(api, url)))


async def _create(api: Api, url: str) -> str:
    body = {"url": url, "event_types": [TYPE]}
    endpoint = await api.call("POST", "/v1/webhook-endpoints", body, status=201)
    return str(endpoint["id"])
