"""A dispatcher as a process of its own."""

from __future__ import annotations

from datetime import datetime

from actors.clock import DatabaseClock, SystemClock
from actors.clock_reading import ClockReader
from actors.database import DatabaseUnavailableError
from actors.egress.client import Egress
from actors.egress.receivers import LocalReceivers
from actors.metrics import Figures, Labels
from actors.outbox.stream import WakeUpStream
from actors.periodic import PeriodicTask
from actors.roles import Context
from actors.vault import Vault
from actors.webhooks.delivery_store import DeliveryStore, delivery_connection
from actors.webhooks.dispatcher import Dispatcher
from actors.webhooks.sender import Sender
from actors.webhooks.signing_secrets import SigningSecrets
from engine.instant import to_datetime
from engine.limits import CLOCK_REFUSED_SECONDS


class DispatcherRole:
    """See ``actors.roles.Role``. It claims deliveries and reads wake-ups under its name."""

    def __init__(self, context: Context) -> None:
        settings = context.settings
        self._connections = [
            delivery_connection(settings.database_dsn, f"stanchion-{context.name}-{use}")
            for use in ("claim", "record", "look")
        ]
        claiming, recording, sweeping = self._connections
        self._stream = WakeUpStream(settings.redis_dsn, context.name)
        self._egress = Egress(
            settings.egress_allow, settings.egress_ca_file, receivers=LocalReceivers(settings.var_dir)
        )
        clock = SystemClock()
        self._database_clock = DatabaseClock()
        store = DeliveryStore(claiming, recording, sweeping, context.name, self._now)
        self._clock_reading = PeriodicTask(
            "clock-check",
            ClockReader(self._database_clock, store.read_clock).step,
            CLOCK_REFUSED_SECONDS,
            tolerated=(DatabaseUnavailableError,),
        )
        self.dispatcher = Dispatcher(
            store,
            Sender(self._egress, SigningSecrets(Vault.from_settings(settings)), clock),
            self._stream,
            clock,
        )

    async def start(self) -> None:
        await self._egress.open()
        self._clock_reading.start()
        self.dispatcher.start()

    async def call(self, method: str, payload: bytes) -> bytes:
        raise ValueError(method, len(payload))

    def figures(self) -> Figures:
        counts, slots = self.dispatcher.attempts.counts, self.dispatcher.slots
        results: dict[Labels, float] = {(kind,): count for kind, count in counts.results.items()}
        return {
            "stanchion_webhook_attempts": results,
            "stanchion_webhook_seconds": self.dispatcher.attempts.seconds.figure(),
            "stanchion_webhook_delivered": counts.delivered,
            "stanchion_webhook_under_way": slots.taken,
            "stanchion_webhook_slow": slots.slow,
            "stanchion_webhook_endpoints_behind": slots.endpoints_behind,
            "stanchion_webhook_unrecorded": self.dispatcher.recorder.unrecorded,
            "stanchion_webhook_claim_failures": self.dispatcher.claim_failures,
        }

    def _now(self) -> datetime | None:
        clock = self._database_clock
        return to_datetime(clock.now_ms()) if clock.trusted else None

    async def stop(self) -> None:
        await self.dispatcher.stop()
        await self._clock_reading.stop()
        await self._egress.close()
        await self._stream.close()
        for connection in self._connections:
            connection.close()
