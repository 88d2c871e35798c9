"""A dispatcher as a process of its own."""

from __future__ import annotations

from actors.clock import SystemClock
from actors.egress.client import Egress
from actors.egress.receivers import LocalReceivers
from actors.metrics import Figures, Labels
from actors.outbox.stream import Stream
from actors.roles import Context
from actors.vault import Vault
from actors.webhooks.book import DeliveryBook, book_lane
from actors.webhooks.custody import SecretCustody
from actors.webhooks.dispatcher import Dispatcher
from actors.webhooks.sender import Sender


class DispatcherRole:
    """See ``actors.roles.Role``. Its name is the one under which it claims and reads wake-ups."""

    def __init__(self, context: Context) -> None:
        settings = context.settings
        self._lanes = [
            book_lane(settings.database_dsn, f"stanchion-{context.name}-{use}")
            for use in ("claim", "record", "look")
        ]
        claiming, recording, looking = self._lanes
        self._stream = Stream(settings.redis_dsn, context.name)
        self._egress = Egress(
            settings.egress_allow, settings.egress_ca_file, receivers=LocalReceivers(settings.var_dir)
        )
        custody = SecretCustody(Vault.from_settings(settings))
        clock = SystemClock()
        self.dispatcher = Dispatcher(
            DeliveryBook(claiming, recording, looking, context.name),
            Sender(self._egress, custody, clock),
            self._stream,
            clock,
        )

    async def start(self) -> None:
        self.dispatcher.start()

    async def call(self, method: str, payload: bytes) -> bytes:
        raise ValueError(method, len(payload))

    def figures(self) -> Figures:
        counts, lanes = self.dispatcher.counts, self.dispatcher.lanes
        attempts: dict[Labels, float] = {(kind,): count for kind, count in counts.endings.items()}
        return {
            "stanchion_webhook_attempts": attempts,
            "stanchion_webhook_seconds": self.dispatcher.seconds.figure(),
            "stanchion_webhook_delivered": counts.delivered,
            "stanchion_webhook_under_way": lanes.under_way,
            "stanchion_webhook_slow": lanes.slow,
            "stanchion_webhook_endpoints_behind": lanes.behind,
            "stanchion_webhook_unrecorded": counts.unrecorded,
            "stanchion_webhook_claim_failures": counts.failures,
        }

    async def stop(self) -> None:
        await self.dispatcher.stop()
        await self._egress.close()
        await self._stream.close()
        for lane in self._lanes:
            lane.close()
