"""Limits card testing: counts unknown card numbers and wrong values by sender.

Each pair of source and acquirer has a token bucket, and each source a larger one, because the sender chooses
the acquirer id (DE32) freely. A source is a link of the configuration, or an address of the default link.
Only messages with an unknown number or a wrong value take tokens: messages of valid cards are never delayed
or refused.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

import msgspec
import structlog

from engine.limits import (
    PROBE_KEYS_MAX,
    PROBES_BURST,
    PROBES_OF_SOURCE_FACTOR,
    PROBES_PER_SECOND,
)

_log = structlog.get_logger(__name__)


class ProbeCounts(msgspec.Struct):
    """Totals since the edge started."""

    unknown_cards: int = 0
    wrong_values: int = 0
    limited: int = 0
    """Unknown cards and wrong values beyond the limit."""


class _Bucket(msgspec.Struct):
    tokens: float
    at: float
    """Instant of ``tokens``, in the limiter's clock."""
    limited: bool = False


class ProbeLimiter:
    """``now``: a monotonic clock in seconds."""

    def __init__(
        self,
        now: Callable[[], float],
        *,
        burst: int = PROBES_BURST,
        per_second: float = PROBES_PER_SECOND,
        keys_max: int = PROBE_KEYS_MAX,
    ) -> None:
        self.counts = ProbeCounts()
        self._now = now
        self._burst = burst
        self._per_second = per_second
        self._keys_max = keys_max
        self._buckets: OrderedDict[tuple[str, str | None], _Bucket] = OrderedDict()

    def unknown_card(self, source: str, acquirer_id: str) -> bool:
        """Count an unknown number. Returns whether it is within the limit."""
        self.counts.unknown_cards += 1
        return self._within(source, acquirer_id)

    def wrong_value(self, source: str, acquirer_id: str) -> bool:
        """Count a wrong CVV2, CVV1 or expiry. Returns whether it is within the limit."""
        self.counts.wrong_values += 1
        return self._within(source, acquirer_id)

    def _within(self, source: str, acquirer_id: str) -> bool:
        of_acquirer = self._take((source, acquirer_id), 1)
        of_source = self._take((source, None), PROBES_OF_SOURCE_FACTOR)
        within = of_acquirer and of_source
        self.counts.limited += not within
        return within

    def _take(self, key: tuple[str, str | None], factor: int) -> bool:
        """Take a token of the bucket of ``key``. Returns whether there was one."""
        now, full = self._now(), float(self._burst * factor)
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = _Bucket(full, now)
            if len(self._buckets) > self._keys_max:
                self._buckets.popitem(last=False)
        self._buckets.move_to_end(key)
        bucket.tokens = min(full, bucket.tokens + (now - bucket.at) * self._per_second * factor)
        bucket.at = now
        if bucket.tokens < 1.0:
            if not bucket.limited:
                _log.warning("card_testing", source=key[0], acquirer_id=key[1])
            bucket.limited = True
            return False
        bucket.tokens -= 1.0
        # One warning for each flood: hysteresis until the bucket is half full.
        bucket.limited = bucket.limited and bucket.tokens < full / 2
        return True
