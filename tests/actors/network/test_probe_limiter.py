"""Card testing is counted by sender, within limits."""

from __future__ import annotations

from structlog.testing import capture_logs

from actors.network.probe_limiter import ProbeLimiter
from engine.limits import PROBES_OF_SOURCE_FACTOR


class Clock:
    """A clock that the test advances."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def test_tokens_refill_with_time() -> None:
    clock = Clock()
    probes = ProbeLimiter(clock, burst=2, per_second=1.0)
    results = [probes.unknown_card("a", "1") for _ in range(3)]
    clock.seconds = 1.0
    results += [probes.wrong_value("a", "1") for _ in range(2)]
    clock.seconds = 1_000.0
    results += [probes.unknown_card("a", "1") for _ in range(3)]
    assert results == [True, True, False, True, False, True, True, False]
    assert (probes.counts.unknown_cards, probes.counts.wrong_values, probes.counts.limited) == (6, 2, 3)


def test_addresses_and_acquirers_have_separate_limits() -> None:
    probes = ProbeLimiter(Clock(), burst=2)
    assert [probes.unknown_card("a", "1") for _ in range(3)] == [True, True, False]
    assert probes.unknown_card("a", "2")
    assert probes.unknown_card("b", "1")


def test_changing_acquirer_ids_does_not_raise_the_limit_of_an_address() -> None:
    probes = ProbeLimiter(Clock(), burst=2)
    results = [probes.unknown_card("a", str(number)) for number in range(3 * PROBES_OF_SOURCE_FACTOR)]
    assert results.count(True) == 2 * PROBES_OF_SOURCE_FACTOR


def test_number_of_buckets_is_bounded() -> None:
    probes = ProbeLimiter(Clock(), burst=1, keys_max=2)
    for number in range(1_000):
        probes.unknown_card(str(number), "1")
    assert len(probes._buckets) == 2


def test_flood_is_logged_once_for_each_bucket() -> None:
    probes = ProbeLimiter(Clock(), burst=2)
    with capture_logs() as lines:
        for _ in range(100):
            probes.unknown_card("192.0.2.7", "1")
    assert [(line["event"], line["source"], line["acquirer_id"]) for line in lines] == [
        ("card_testing", "192.0.2.7", "1"),
        ("card_testing", "192.0.2.7", None),
    ]
