"""The blocking and the asynchronous client: an address, credentials, and methods for each kind of
resource."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Generic

import httpx2

from stanchion.compat import Self
from stanchion.errors import StanchionError
from stanchion.operations import AnyTransport
from stanchion.protocol import Credentials
from stanchion.resources.accounts import Accounts, LedgerEntries, Transfers
from stanchion.resources.authorization_rules import AuthorizationRules
from stanchion.resources.backtests import Backtests
from stanchion.resources.cards import Cardholders, CardProducts, Cards
from stanchion.resources.clients import AuditLog, Clients
from stanchion.resources.events import Events, WebhookEndpoints
from stanchion.resources.exports import Exports, SettlementReports
from stanchion.resources.kyc import Kyc
from stanchion.resources.links import Links
from stanchion.resources.programs import Programs
from stanchion.resources.transactions import Simulations, Transactions
from stanchion.resources.users import Users
from stanchion.retries import RetryPolicy
from stanchion.transport import AsyncTransport, Transport

TIMEOUT_SECONDS: Final = 30.0
RUN_FILE: Final = "var/run.json"


class Resources(Generic[AnyTransport]):
    """The operations of the API, grouped by kind of resource."""

    def __init__(self, transport: AnyTransport) -> None:
        self._transport = transport
        self.programs = Programs(transport)
        self.card_products = CardProducts(transport)
        self.cardholders = Cardholders(transport)
        self.cards = Cards(transport)
        self.authorization_rules = AuthorizationRules(transport)
        self.accounts = Accounts(transport)
        self.transfers = Transfers(transport)
        self.ledger_entries = LedgerEntries(transport)
        self.transactions = Transactions(transport)
        self.simulations = Simulations(transport)
        self.events = Events(transport)
        self.webhook_endpoints = WebhookEndpoints(transport)
        self.kyc = Kyc(transport)
        self.exports = Exports(transport)
        self.backtests = Backtests(transport)
        self.settlement_reports = SettlementReports(transport)
        self.clients = Clients(transport)
        self.users = Users(transport)
        self.audit_log = AuditLog(transport)
        self.links = Links(transport)


class Client(Resources[Transport]):
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
        """``scope`` restricts the token to these scopes (space-separated). ``http`` is your own HTTP client
        with your proxies, certificates or hooks; it then defines the base address and the timeouts itself."""
        http = http or httpx2.Client(base_url=base_url, timeout=timeout_seconds)
        super().__init__(
            Transport(http, Credentials(client_id, client_secret, scope), retry or RetryPolicy())
        )

    @classmethod
    def of_installation(
        cls, run_file: Path | str = RUN_FILE, *, mode: str = "test", role: str = "admin", **options: Any
    ) -> Self:
        """A client of the installation on this machine, with the credentials of a demo tenant.

        ``options`` are those of the constructor. Raises StanchionError if the installation does not run.
        """
        return cls(*_credentials_from(run_file, mode, role), **options)

    def request(
        self,
        method: str,
        path: str,
        *,
        body: Mapping[str, Any] | None = None,
        query: Mapping[str, Any] | None = None,
        idempotency_key: str | None = None,
    ) -> Any:
        """Call any operation of the API, with the same token, keys and retries, and return the JSON body."""
        return self._transport.request(method, path, body=body, query=query, idempotency_key=idempotency_key)

    def close(self) -> None:
        """Close the connections. May be called twice."""
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()


class AsyncClient(Resources[AsyncTransport]):
    """``Client`` for asyncio: await its calls, and iterate over its lists with ``async for``.

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
        """See ``Client``."""
        http = http or httpx2.AsyncClient(base_url=base_url, timeout=timeout_seconds)
        credentials = Credentials(client_id, client_secret, scope)
        super().__init__(AsyncTransport(http, credentials, retry or RetryPolicy()))

    @classmethod
    def of_installation(
        cls, run_file: Path | str = RUN_FILE, *, mode: str = "test", role: str = "admin", **options: Any
    ) -> Self:
        """See ``Client``."""
        return cls(*_credentials_from(run_file, mode, role), **options)

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: Mapping[str, Any] | None = None,
        query: Mapping[str, Any] | None = None,
        idempotency_key: str | None = None,
    ) -> Any:
        """Call any operation of the API, with the same token, keys and retries, and return the JSON body."""
        return await self._transport.request(
            method, path, body=body, query=query, idempotency_key=idempotency_key
        )

    async def close(self) -> None:
        """Close the connections. May be called twice."""
        await self._transport.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exception: object) -> None:
        await self.close()


def _credentials_from(run_file: Path | str, mode: str, role: str) -> tuple[str, str, str]:
    """Address, client id and secret of a client in ``run_file``. Raises StanchionError."""
    try:
        record = json.loads(Path(run_file).read_bytes())
    except FileNotFoundError:
        raise StanchionError(f"{run_file} does not exist: no installation runs in that folder") from None
    for each in record["tenants"]:
        if (each["mode"], each["role"]) == (mode, role):
            return record["base_url"], each["client_id"], each["client_secret"]
    raise StanchionError(f"{run_file} has no {mode} client with the role {role}")
