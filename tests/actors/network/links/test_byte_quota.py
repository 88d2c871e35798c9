"""A link that exceeds its bytes a second is read more slowly, by exactly the excess."""

from __future__ import annotations

from actors.network.links.byte_quota import ByteQuota


def test_excess_costs_its_time() -> None:
    now = [0.0]
    quota = ByteQuota(1_000, lambda: now[0])
    assert quota.take(1_000) == 0.0
    assert quota.take(500) == 0.5
    now[0] = 0.5
    assert quota.take(250) == 0.25
    now[0] = 100.0
    assert quota.take(1_000) == 0.0
    assert quota.take(1) == 0.001
