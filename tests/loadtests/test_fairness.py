"""The verdict on one tenant's service."""

from __future__ import annotations

import msgspec
import pytest

from loadtests.fairness import Service, table

GOOD = Service(1_000, 3.0, 25.0, 0, 100, 10.0, 100.0, 0)


def test_service_within_its_targets_is_not_broken() -> None:
    assert GOOD.broken == []
    assert "| alone | 1,000 | 3.0 | 25.0 | 0 | 100 | 10.0 | 100.0 | 0 |" in table({"alone": GOOD})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"decision_p99_ms": 25.1}, "p99 of decisions is 25.1 ms, more than 25"),
        ({"call_p99_ms": 100.1}, "p99 of API calls is 100.1 ms, more than 100"),
        ({"refused": 1}, "1 decisions and 0 API calls failed"),
        ({"failed": 2}, "0 decisions and 2 API calls failed"),
    ],
)
def test_each_missed_target_is_named(change: dict[str, float], message: str) -> None:
    assert msgspec.structs.replace(GOOD, **change).broken == [message]
