"""Events, webhooks, relay and dispatchers."""

from __future__ import annotations

from typing import Final

# Events
EVENT_RETENTION_DAYS: Final = 30
"""Time that events and deliveries are shown."""
RETENTION_GRACE_DAYS: Final = 1
"""Grace period between hiding a row and deleting it."""
RETENTION_ROWS_MAX: Final = 1_000
"""Rows deleted in one statement: a month of events that expires at once must not delay decisions."""
RETENTION_SECONDS: Final = 60.0
"""Interval between retention sweeps."""
RETENTION_BUSY_SECONDS: Final = 0.25
"""The same while one step cannot delete all expired rows."""

# Webhooks
WEBHOOK_ENDPOINTS_MAX: Final = 16
"""Endpoints of a tenant in one mode."""
WEBHOOK_SECRET_OVERLAP_HOURS: Final = 24
"""Time that the previous secret still signs after a rotation."""
WEBHOOK_TIMEOUT_SECONDS: Final = 10
"""Time limit of a whole attempt, from the look-up of the receiver's name to the last byte of its answer."""
WEBHOOK_ANSWER_BYTES_MAX: Final = 64 * 1024
"""Bytes of a receiver's answer that are read."""
SIGNATURE_TOLERANCE_SECONDS: Final = 300
"""Largest difference between the time in a signature and the verifier's clock."""

# Relay and wake-ups
RELAY_BATCH_MAX: Final = 128
"""Events that become deliveries in one transaction. It writes up to sixteen times as many rows, and the
commit of a decision may have to wait for their flush."""
RELAY_BUSY_SECONDS: Final = 0.05
"""Pause of the relay after a batch that was not full; after a full batch it pauses for as long as that batch
took."""
RELAY_IDLE_SECONDS: Final = 0.25
"""Pause of the relay after an empty batch, which costs one round trip."""
RELAY_TIMEOUT_MS: Final = 10_000
"""Time limit of one batch; the relay then starts it again."""
WAKE_UPS_KEPT_MAX: Final = 20_000
"""Wake-ups in the stream; older ones are trimmed, and the sweep finds their deliveries."""
WAKE_UPS_WAITING_MAX: Final = 20_000
"""Wake-ups queued for Redis above which further ones are dropped: Redis is away, and memory is bounded."""
WAKE_UPS_AT_ONCE_MAX: Final = 256
"""Wake-ups written or read in one round trip."""
WAKE_UP_WAIT_SECONDS: Final = 2.0
"""Time that a dispatcher's blocking read of the stream waits for wake-ups."""
WAKE_UP_STUCK_SECONDS: Final = 60.0
"""Wake-ups that their reader has left unacknowledged for this long are taken over."""
REDIS_TIMEOUT_SECONDS: Final = 1.0
"""Time limit of a round trip to Redis; the caller continues without it."""
DELIVERY_BACKLOG_COUNT_MAX: Final = 100_000
"""Due deliveries at which a measurement of the backlog stops counting."""
DELIVERY_BACKLOG_SECONDS: Final = 5.0
"""Interval between measurements."""
SCHEDULE_SLACK_SECONDS: Final = 3_600
"""An attempt scheduled this much later than its place in the schedule was scheduled by a wrong clock."""

# Dispatchers
ATTEMPTS_OF_ENDPOINT_MAX: Final = 16
"""Open attempts of one dispatcher to one endpoint."""
ATTEMPTS_OF_SUSPECT_MAX: Final = 4
"""The same after an attempt that was slow and got no answer."""
ATTEMPT_SLOW_SECONDS: Final = 1.0
"""Duration after which an attempt is slow and returns its slot: receivers that hang must not use up all
slots."""
ATTEMPTS_QUICK_MAX: Final = 256
"""Open attempts of one dispatcher that are not slow."""
ATTEMPTS_SLOW_MAX: Final = 1_024
"""Slow attempts above which endpoints that tend to hang wait."""
ATTEMPTS_OPEN_MAX: Final = 1_536
"""Open attempts of one dispatcher, slow ones included."""
CLAIM_BATCH_MAX: Final = 128
"""Deliveries claimed in one statement."""
CLAIM_ENDPOINTS_MAX: Final = 64
"""Endpoints whose due deliveries are searched in one statement."""
CLAIM_PAUSE_SECONDS_MIN: Final = 0.01
"""Shortest pause between two claims, and between two records: under load they share transactions."""
CLAIM_PAUSE_FACTOR: Final = 5
"""After a claim, the dispatcher pauses for this multiple of the claim's duration."""
CLAIM_PAUSE_SECONDS_MAX: Final = 0.5
"""Longest such pause: a long claim may only mean that the database stalled once."""
DELIVERY_LEASE_SECONDS: Final = 30.0
"""Lease on a claimed delivery; longer than one attempt plus its record."""
DELIVERY_LEASE_FRESH_SECONDS: Final = 10.0
"""Age of a lease above which its attempt is not sent any more: the process was frozen."""
RECORD_BATCH_MAX: Final = 256
"""Results of attempts recorded in one statement."""
DELIVERY_SWEEP_SECONDS: Final = 1.0
"""Interval between a dispatcher's sweeps for due deliveries without a wake-up."""
DELIVERY_SWEEP_ENDPOINTS_MAX: Final = 256
"""Endpoints in one step of a sweep."""
DISPATCHER_STOP_SECONDS: Final = 5.0
"""Time that a stopping dispatcher waits for receivers' answers."""
SECRETS_CACHED_MAX: Final = 10_000
"""Opened signing secrets cached in one dispatcher."""
