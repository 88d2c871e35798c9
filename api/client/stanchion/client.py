"""The client itself: an address, credentials, and a family of methods for each kind of resource."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import httpx2

from stanchion import resources
from stanchion.errors import StanchionError
from stanchion.retries import RetryPolicy
from stanchion.transport import Credentials, Transport

TIMEOUT_SECONDS = 30.0


class Client:
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
        self._transport = Transport(
            http or httpx2.Client(base_url=base_url, timeout=timeout_seconds),
            Credentials(client_id, client_secret, scope),
            retry or RetryPolicy(),
        )
        self.programs = resources.Programs(self._transport)
        self.card_products = resources.CardProducts(self._transport)
        self.cardholders = resources.Cardholders(self._transport)
        self.cards = resources.Cards(self._transport)
        self.transactions = resources.Transactions(self._transport)
        self.simulations = resources.Simulations(self._transport)
        self.events = resources.Events(self._transport)
        self.webhook_endpoints = resources.WebhookEndpoints(self._transport)

    @classmethod
    def of_installation(
        cls, run_file: Path | str = "var/run.json", *, mode: str = "test", role: str = "admin", **options: Any
    ) -> Self:
        """A client of the installation on this machine, as one of the tenants that it has made for a start.

        Raises StanchionError when it does not run. ``options``: as of the constructor.
        """
        try:
            record = json.loads(Path(run_file).read_bytes())
        except FileNotFoundError:
            raise StanchionError(f"{run_file} is not there: nothing runs in that folder") from None
        for each in record["tenants"]:
            if (each["mode"], each["role"]) == (mode, role):
                return cls(record["base_url"], each["client_id"], each["client_secret"], **options)
        raise StanchionError(f"{run_file} names no {mode} client of role {role}")

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
