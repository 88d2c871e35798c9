"""The retry policy: which failures are retried, and after which pause. Pure: time and chance are arguments.

A repeatable request may be retried after any transient failure, because a read has no effect and an
idempotency key at most one. Other requests (simulated spends) are retried only if they certainly had no
effect."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from stanchion.errors import ProblemError

IN_PROGRESS = "idempotency-in-progress"

Failure = ProblemError | Literal["not_sent", "no_answer"]


@dataclass(frozen=True)
class RetryPolicy:
    """``attempts`` includes the first one. Pauses double from ``pause_seconds`` up to ``pause_seconds_max``,
    with random jitter. A ``Retry-After`` above ``pause_seconds_max`` ends the retries."""

    attempts: int = 4
    pause_seconds: float = 0.2
    pause_seconds_max: float = 5.0

    def pause(self, attempt: int, failure: Failure, *, repeatable: bool, chance: float) -> float | None:
        """Seconds until attempt ``attempt + 1`` (the first is 1), or ``None`` to give up.

        ``chance`` is drawn from [0, 1).
        """
        if attempt >= self.attempts or not _may_repeat(failure, repeatable):
            return None
        requested = failure.retry_after if isinstance(failure, ProblemError) else None
        if requested is not None:
            return requested if requested <= self.pause_seconds_max else None
        return min(self.pause_seconds_max, self.pause_seconds * 2.0 ** (attempt - 1)) * (0.5 + chance / 2)


def _may_repeat(failure: Failure, repeatable: bool) -> bool:
    if isinstance(failure, ProblemError):
        refused_unread = failure.status == 429
        transient = failure.status >= 500 or failure.slug == IN_PROGRESS
        return refused_unread or (transient and repeatable)
    return failure == "not_sent" or repeatable
