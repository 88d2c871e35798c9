"""The two clients: an address, credentials, and a family of methods for each kind of resource."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Generic, Self

import httpx2

from stanchion.conversation import Credentials
from stanchion.errors import StanchionError
from stanchion.operations import Way
from stanchion.resources.cards import Cardholders, CardProducts, Cards
from stanchion.resources.events import Events, WebhookEndpoints
from stanchion.resources.kyc import Kyc
from stanchion.resources.programs import Programs
from stanchion.resources.transactions import Simulations, Transactions
from stanchion.retries import RetryPolicy
from stanchion.transport import AsyncTransport, Transport

TIMEOUT_SECONDS: Final = 30.0
RUN_FILE: Final = "var/run.json"


class Families(Generic[Way]):
    """All operations of the API, by kind of resource."""

    def __init__(self, transport: Way) -> None:
        self._transport = transport
        self.programs = Programs(transport)
        self.card_products = CardProducts(transport)
        self.cardholders = Cardholders(transport)
        self.cards = Cards(transport)
        self.transactions = Transactions(transport)
        self.simulations = Simulations(transport)
        self.events = Events(transport)
        self.webhook_endpoints = WebhookEndpoints(transport)
        self.kyc = Kyc(transport)


class Client(Families[Transport]):
    """One API client. Use it as a context manager, or ``close`` it; several threads may share it.

    >>> with Client("http://127.0.0.1:8000", client_id, client_secret) as client:  # doctest: +SKIP
    ...     for card in client.cards.list():
    ...         print(card["last4"], client.cards.balance(card["id"])["available"])
    """

    def __init__(
        self,
        base_url: str,
        client_id: str,
        client_secret: str,
        *,
        scope: str | None = None,
        timeout_seconds: float = TIMEOUT_SECONDS,
        retry: RetryPolicy | None = None,
        http: httpx2.Client | None = None,
    ) -> None:
        """``scope``: less than all that the client may do, space-separated. ``http``: your own, with your
        proxies, certificates or hooks; ``base_url`` and ``timeout_seconds`` are then its own business."""
        http = http or httpx2.Client(base_url=base_url, timeout=timeout_seconds)
        super().__init__(
            Transport(http, Credentials(client_id, client_secret, scope), retry or RetryPolicy())
        )

    @classmethod
    def of_installation(
        cls, run_file: Path | str = RUN_FILE, *, mode: str = "test", role: str = "admin", **options: Any
    ) -> Self:
        """A client of the installation on this machine, as one of the tenants that it has made for a start.

        Raises StanchionError when it does not run. ``options``: as of the constructor.
        """
        return cls(*_found(run_file, mode, role), **options)

    def request(
        self,
        method: str,
        path: str,
        *,
        body: Mapping[str, Any] | None = None,
        query: Mapping[str, Any] | None = None,
        idempotency_key: str | None = None,
    ) -> Any:
        """Any operation of the API's description, with the same token, keys and retries; its JSON body."""
        return self._transport.request(method, path, body=body, query=query, idempotency_key=idempotency_key)

    def close(self) -> None:
        """Close the connections; twice is harmless."""
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()


class AsyncClient(Families[AsyncTransport]):
    """The same for asyncio: what ``Client`` returns is awaited, and lists are walked by ``async for``.

    >>> async with AsyncClient("http://127.0.0.1:8000", client_id, client_secret) as client:  # doctest: +SKIP
    ...     async for card in client.cards.list():
    ...         print(card["last4"], (await client.cards.balance(card["id"]))["available"])
    """

    def __init__(
        self,
        base_url: str,
        client_id: str,
        client_secret: str,
        *,
        scope: str | None = None,
        timeout_seconds: float = TIMEOUT_SECONDS,
        retry: RetryPolicy | None = None,
        http: httpx2.AsyncClient | None = None,
    ) -> None:
        """As of ``Client``."""
        http = http or httpx2.AsyncClient(base_url=base_url, timeout=timeout_seconds)
        credentials = Credentials(client_id, client_secret, scope)
        super().__init__(AsyncTransport(http, credentials, retry or RetryPolicy()))

    @classmethod
    def of_installation(
        cls, run_file: Path | str = RUN_FILE, *, mode: str = "test", role: str = "admin", **options: Any
    ) -> Self:
        """As of ``Client``."""
        return cls(*_found(run_file, mode, role), **options)

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: Mapping[str, Any] | None = None,
        query: Mapping[str, Any] | None = None,
        idempotency_key: str | None = None,
    ) -> Any:
        """Any operation of the API's description, with the same token, keys and retries; its JSON body."""
        return await self._transport.request(
            method, path, body=body, query=query, idempotency_key=idempotency_key
        )

    async def close(self) -> None:
        """Close the connections; twice is harmless."""
        await self._transport.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exception: object) -> None:
        await self.close()


def _found(run_file: Path | str, mode: str, role: str) -> tuple[str, str, str]:
    """Address, client id and secret of a client that ``run_file`` names. Raises StanchionError."""
    try:
        record = json.loads(Path(run_file).read_bytes())
    except FileNotFoundError:
        raise StanchionError(f"{run_file} is not there: nothing runs in that folder") from None
    for each in record["tenants"]:
        if (each["mode"], each["role"]) == (mode, role):
            return record["base_url"], each["client_id"], each["client_secret"]
    raise StanchionError(f"{run_file} names no {mode} client of role {role}")
