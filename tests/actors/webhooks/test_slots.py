"""Slots for attempts: shared fairly, bounded, and not used up by hanging receivers."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from actors.webhooks.slots import AttemptSlots
from engine.limits import (
    ATTEMPTS_OF_ENDPOINT_MAX,
    ATTEMPTS_OF_SUSPECT_MAX,
    ATTEMPTS_OPEN_MAX,
    ATTEMPTS_QUICK_MAX,
    ATTEMPTS_SLOW_MAX,
)

ENDPOINTS = [f"endpoint-{number}" for number in range(40)]


def hang(slots: AttemptSlots, endpoint: str) -> int:
    """Let an endpoint take all available slots and hang; returns the number of attempts."""
    taken = 0
    while slots.take(endpoint):
        taken += 1
    for _ in range(taken):
        slots.mark_slow(endpoint)
    return taken


def test_deliveries_above_the_cap_of_an_endpoint_wait() -> None:
    slots = AttemptSlots()
    assert [slots.take("a") for _ in range(ATTEMPTS_OF_ENDPOINT_MAX + 1)].count(True) == (
        ATTEMPTS_OF_ENDPOINT_MAX
    )
    assert slots.endpoints_behind == 1
    assert slots.take("b")
    # All slots of the endpoint are taken.
    assert slots.take_for_backlog(10, 100) == {}
    slots.finish("a", slow=False, hung=False)
    assert slots.take_for_backlog(10, 100) == {"a": 1}
    assert slots.endpoints_behind == 0


def test_new_delivery_waits_behind_older_ones_of_its_endpoint() -> None:
    slots = AttemptSlots()
    slots.mark_behind("a")
    assert not slots.take("a")
    assert slots.take_for_backlog(10, 100) == {"a": ATTEMPTS_OF_ENDPOINT_MAX}


def test_slots_are_shared_fairly_in_order_of_waiting() -> None:
    slots = AttemptSlots()
    for endpoint in ENDPOINTS:
        slots.mark_behind(endpoint)
    first = slots.take_for_backlog(30, 60)
    assert first == dict.fromkeys(ENDPOINTS[:30], 2)
    for endpoint in first:
        slots.mark_behind(endpoint)
    second = slots.take_for_backlog(20, 20)
    assert list(second) == [*ENDPOINTS[30:], *ENDPOINTS[:10]]


def test_hanging_endpoint_returns_its_slots_and_gets_few_afterwards() -> None:
    slots = AttemptSlots()
    assert hang(slots, "a") == ATTEMPTS_OF_ENDPOINT_MAX
    assert slots.free == ATTEMPTS_QUICK_MAX
    for _ in range(ATTEMPTS_OF_ENDPOINT_MAX):
        slots.finish("a", slow=True, hung=True)
    assert (slots.slow, slots.taken) == (0, 0)
    assert slots.available("a") == ATTEMPTS_OF_SUSPECT_MAX
    assert slots.take_for_backlog(1, 1) == {"a": 1}
    slots.finish("a", slow=False, hung=False)
    assert slots.available("a") == ATTEMPTS_OF_ENDPOINT_MAX


def test_very_many_hanging_endpoints_leave_slots_for_others() -> None:
    slots = AttemptSlots()
    hanging = 0
    for number in range(1_000):
        hanging += hang(slots, f"endpoint-{number}")
    assert hanging == ATTEMPTS_OPEN_MAX
    # The first attempts time out; their endpoints are suspects now.
    for number in range(hanging // ATTEMPTS_OF_ENDPOINT_MAX):
        for _ in range(ATTEMPTS_OF_ENDPOINT_MAX):
            slots.finish(f"endpoint-{number}", slow=True, hung=True)
    suspects = hanging // ATTEMPTS_OF_ENDPOINT_MAX
    open_again = sum(hang(slots, f"endpoint-{number % suspects}") for number in range(1_000))
    assert open_again <= ATTEMPTS_SLOW_MAX
    assert slots.take("healthy")


class SlotsMachine(RuleBasedStateMachine):
    """In any order of events, the sums are right and no limit is exceeded."""

    def __init__(self) -> None:
        super().__init__()
        self.slots = AttemptSlots()
        self.attempts: list[tuple[str, bool]] = []

    @rule(endpoint=st.sampled_from(ENDPOINTS[:6]), times=st.integers(1, 40))
    def take(self, endpoint: str, times: int) -> None:
        for _ in range(times):
            if self.slots.take(endpoint):
                self.attempts.append((endpoint, False))

    @rule(endpoint=st.sampled_from(ENDPOINTS[:6]))
    def mark_behind(self, endpoint: str) -> None:
        self.slots.mark_behind(endpoint)

    @rule(endpoints_max=st.integers(1, 6), deliveries_max=st.integers(0, 100))
    def take_for_backlog(self, endpoints_max: int, deliveries_max: int) -> None:
        rooms = self.slots.take_for_backlog(endpoints_max, deliveries_max)
        assert len(rooms) <= endpoints_max
        assert sum(rooms.values()) <= deliveries_max
        for endpoint, room in rooms.items():
            assert room > 0
            self.attempts += [(endpoint, False)] * room

    @precondition(lambda self: self.attempts)
    @rule(data=st.data())
    def mark_slow(self, data: st.DataObject) -> None:
        index = data.draw(st.integers(0, len(self.attempts) - 1))
        endpoint, slow = self.attempts[index]
        if not slow:
            self.slots.mark_slow(endpoint)
            self.attempts[index] = (endpoint, True)

    @precondition(lambda self: self.attempts)
    @rule(data=st.data(), hung=st.booleans(), times=st.integers(1, 20))
    def finish(self, data: st.DataObject, hung: bool, times: int) -> None:
        for _ in range(min(times, len(self.attempts))):
            index = data.draw(st.integers(0, len(self.attempts) - 1))
            endpoint, slow = self.attempts.pop(index)
            self.slots.finish(endpoint, slow=slow, hung=hung)

    @precondition(lambda self: self.attempts)
    @rule()
    def release(self) -> None:
        endpoint, slow = self.attempts[-1]
        if not slow:
            self.attempts.pop()
            self.slots.release(endpoint)

    @invariant()
    def sums_are_right(self) -> None:
        assert self.slots.taken == len(self.attempts) <= ATTEMPTS_OPEN_MAX
        assert self.slots.slow == sum(slow for _, slow in self.attempts)
        assert self.slots.taken - self.slots.slow <= ATTEMPTS_QUICK_MAX
        for endpoint in ENDPOINTS[:6]:
            own = sum(name == endpoint for name, _ in self.attempts)
            assert own <= ATTEMPTS_OF_ENDPOINT_MAX
            assert self.slots.available(endpoint) <= ATTEMPTS_OF_ENDPOINT_MAX - own
        assert len(self.slots) <= 6


SlotsMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestSlots = SlotsMachine.TestCase
