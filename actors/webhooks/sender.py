"""One attempt: the event's exact bytes, signed with every active secret, sent once."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Final, Protocol

from actors.clock import Clock
from actors.egress.answers import EgressError, Received
from actors.vault import VaultError
from actors.webhooks.delivery import (
    CONNECTION_FAILED,
    UNREADABLE,
    AttemptResult,
    DeliveryLease,
    answered,
    unanswered,
)
from actors.webhooks.signing_secrets import SigningSecrets
from engine.instant import to_ms
from engine.limits import SECRETS_CACHED_MAX, WEBHOOK_ANSWER_BYTES_MAX, WEBHOOK_TIMEOUT_SECONDS
from engine.webhooks.envelope import envelope
from engine.webhooks.signature import HEADER, sign

_JSON: Final = "application/json"
# All are recorded as one error: the exact reason would show the endpoint's owner which ports are open.
_NOT_CONNECTED: Final = frozenset({"connect", "tls", "disconnected"})


class Poster(Protocol):
    """The egress client; see ``actors.egress.client.Egress``."""

    async def post(
        self,
        url: str,
        body: bytes,
        headers: Mapping[str, str],
        *,
        timeout_seconds: float,
        body_bytes_max: int,
        live: bool,
    ) -> Received: ...


class Sender:
    """Makes attempts. It caches opened secrets, because opening one costs more than signing with it."""

    def __init__(self, poster: Poster, secrets: SigningSecrets, clock: Clock) -> None:
        self._poster = poster
        self._secrets = secrets
        self._clock = clock
        self._open: OrderedDict[tuple[str, bytes], str] = OrderedDict()

    async def send(self, lease: DeliveryLease) -> AttemptResult:
        """Make the attempt. A receiver's behaviour never raises an exception."""
        started = self._clock.monotonic()
        try:
            received = await self._post(lease)
        except EgressError as failure:
            error = CONNECTION_FAILED if failure.reason in _NOT_CONNECTED else failure.reason
            return unanswered(lease, self._ms_since(started), error)
        except VaultError:
            return unanswered(lease, self._ms_since(started), UNREADABLE)
        return answered(lease, self._ms_since(started), received)

    def _ms_since(self, started: float) -> int:
        return round((self._clock.monotonic() - started) * 1000)

    async def _post(self, lease: DeliveryLease) -> Received:
        body = envelope(lease.event_id, lease.type, to_ms(lease.created_at), lease.data)
        secrets = [self._secret(lease.endpoint_id, sealed) for sealed in lease.sealed_secrets]
        signature = sign(body, secrets, self._clock.now_ms() // 1000)
        return await self._poster.post(
            lease.url,
            body,
            {"Content-Type": _JSON, HEADER: signature},
            timeout_seconds=WEBHOOK_TIMEOUT_SECONDS,
            body_bytes_max=WEBHOOK_ANSWER_BYTES_MAX,
            live=lease.live,
        )

    def _secret(self, endpoint_id: str, sealed: bytes) -> str:
        key = (endpoint_id, sealed)
        secret = self._open.get(key)
        if secret is None:
            secret = self._open[key] = self._secrets.open(endpoint_id, sealed)
            if len(self._open) > SECRETS_CACHED_MAX:
                self._open.popitem(last=False)
        else:
            self._open.move_to_end(key)
        return secret
