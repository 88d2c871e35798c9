"""One attempt: the event's exact bytes, signed with every active secret, sent once."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Final, Protocol

from actors.clock import Clock
from actors.egress.client import EgressError, Received
from actors.vault import VaultError
from actors.webhooks.custody import SecretCustody
from actors.webhooks.delivery import CONNECTION_FAILED, UNREADABLE, Claim, Ending, answered, unanswered
from engine.instant import to_ms
from engine.limits import OPEN_SECRETS_MAX, WEBHOOK_ANSWER_BYTES_MAX, WEBHOOK_TIMEOUT_SECONDS
from engine.webhooks.envelope import envelope
from engine.webhooks.signature import HEADER, sign

_JSON: Final = "application/json"


# Which of these it was would tell open ports from closed ones to the owner of an endpoint.
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
    """Sends claims. It caches opened secrets, because opening one costs more than signing with it."""

    def __init__(self, poster: Poster, custody: SecretCustody, clock: Clock) -> None:
        self._poster = poster
        self._custody = custody
        self._clock = clock
        self._open: OrderedDict[tuple[str, bytes], str] = OrderedDict()

    async def send(self, claim: Claim) -> Ending:
        """Make the attempt. A receiver's behaviour never raises an exception."""
        started = self._clock.monotonic()
        try:
            received = await self._post(claim)
        except EgressError as failure:
            error = CONNECTION_FAILED if failure.reason in _NOT_CONNECTED else failure.reason
            return unanswered(claim, self._since(started), error)
        except VaultError:
            return unanswered(claim, self._since(started), UNREADABLE)
        return answered(claim, self._since(started), received)

    def _since(self, started: float) -> int:
        return round((self._clock.monotonic() - started) * 1000)

    async def _post(self, claim: Claim) -> Received:
        body = envelope(claim.event_id, claim.type, to_ms(claim.created_at), claim.data)
        secrets = [self._secret(claim.endpoint_id, sealed) for sealed in claim.sealed_secrets]
        signature = sign(body, secrets, self._clock.now_ms() // 1000)
        return await self._poster.post(
            claim.url,
            body,
            {"Content-Type": _JSON, HEADER: signature},
            timeout_seconds=WEBHOOK_TIMEOUT_SECONDS,
            body_bytes_max=WEBHOOK_ANSWER_BYTES_MAX,
            live=claim.live,
        )

    def _secret(self, endpoint_id: str, sealed: bytes) -> str:
        key = (endpoint_id, sealed)
        secret = self._open.get(key)
        if secret is None:
            secret = self._open[key] = self._custody.open(endpoint_id, sealed)
            if len(self._open) > OPEN_SECRETS_MAX:
                self._open.popitem(last=False)
        else:
            self._open.move_to_end(key)
        return secret
