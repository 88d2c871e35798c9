"""Promises of deliveries: none is missing, and attempts follow the schedule."""

from __future__ import annotations

from typing import Final

from engine.limits import EVENT_RETENTION_DAYS
from engine.webhooks.schedule import ATTEMPTS_MAX, OFFSETS_SECONDS

_UNCHANGED_FOR: Final = "10 seconds"
"""The endpoint must have been unchanged for this long before the event: the relay may not have seen a later
change."""
_OFFSETS: Final = f"ARRAY[{', '.join(map(str, OFFSETS_SECONDS))}]::float8[]"

WEBHOOKS: Final[dict[str, str]] = {
    "each event has a delivery for each subscribed endpoint": f"""
        SELECT e.id::text || '/' || w.id, d.id IS NOT NULL
        FROM relay_progress p JOIN events e ON e.txid < p.txid
        JOIN webhook_endpoints w ON w.tenant_id = e.tenant_id AND w.live = e.live
        LEFT JOIN deliveries d ON d.event_id = e.id AND d.endpoint_id = w.id AND NOT d.redelivery
        WHERE w.status = 'enabled' AND w.event_types && ARRAY[e.type, '*']
            AND w.updated_at < e.created_at - interval '{_UNCHANGED_FOR}'
            AND e.created_at > now() - interval '{EVENT_RETENTION_DAYS} days'""",
    # The result of the newest attempt may not be recorded yet.
    "attempts of a delivery are numbered from 1, and at most as many as scheduled": f"""
        SELECT d.id, d.attempts <= {ATTEMPTS_MAX}
            AND count(*) FILTER (WHERE a.number BETWEEN 1 AND d.attempts) = count(a.number)
            AND count(*) FILTER (WHERE a.number < d.attempts) = greatest(d.attempts - 1, 0)
        FROM deliveries d LEFT JOIN delivery_attempts a ON a.delivery_id = d.id GROUP BY d.id""",
    "no attempt was earlier than scheduled": f"""
        SELECT a.delivery_id::text || '/' || a.number, a.started_at
            >= d.first_attempt_at + make_interval(secs => ({_OFFSETS})[a.number])
        FROM delivery_attempts a LEFT JOIN deliveries d ON d.id = a.delivery_id""",
    "a delivery is delivered exactly if an attempt was answered with 2xx": f"""
        SELECT d.id, (d.state = 'delivered') = coalesce(bool_or(a.status_code BETWEEN 200 AND 299), false)
            AND (d.failure IS DISTINCT FROM 'attempts_exhausted' OR d.attempts = {ATTEMPTS_MAX})
        FROM deliveries d LEFT JOIN delivery_attempts a ON a.delivery_id = d.id GROUP BY d.id""",
}
