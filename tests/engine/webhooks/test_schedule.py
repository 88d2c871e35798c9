"""Six attempts at the offsets of the specification, from the first one."""

from __future__ import annotations

import pytest

from engine.webhooks.schedule import ATTEMPTS_MAX, next_attempt_ms

FIRST_MS = 1_700_000_000_000
MINUTE_MS, HOUR_MS = 60_000, 3_600_000


@pytest.mark.parametrize(
    ("attempts", "offset_ms"),
    [(1, MINUTE_MS), (2, 5 * MINUTE_MS), (3, 30 * MINUTE_MS), (4, 2 * HOUR_MS), (5, 24 * HOUR_MS)],
)
def test_attempt_is_due_at_its_offset_from_the_first(attempts: int, offset_ms: int) -> None:
    assert next_attempt_ms(FIRST_MS, attempts) == FIRST_MS + offset_ms


@pytest.mark.parametrize("attempts", [6, 7, 100])
def test_no_attempt_after_the_sixth(attempts: int) -> None:
    assert ATTEMPTS_MAX == 6
    assert next_attempt_ms(FIRST_MS, attempts) is None
