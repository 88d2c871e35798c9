"""Places for attempts: shared fairly, never more than there are, and not used up by who hangs."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from actors.webhooks.lanes import Lanes
from engine.limits import (
    ATTEMPTS_MAX,
    ATTEMPTS_OF_ENDPOINT_MAX,
    ATTEMPTS_OF_SUSPECT_MAX,
    ATTEMPTS_QUICK_MAX,
    ATTEMPTS_SLOW_MAX,
)

ENDPOINTS = [f"endpoint-{number}" for number in range(40)]


def hang(lanes: Lanes, endpoint: str) -> int:
    """Let an endpoint take all it can and hang; how many attempts that were."""
    taken = 0
    while lanes.take(endpoint):
        taken += 1
    for _ in range(taken):
        lanes.become_slow(endpoint)
    return taken


def test_an_endpoint_has_its_cap_and_the_rest_waits() -> None:
    lanes = Lanes()
    assert [lanes.take("a") for _ in range(ATTEMPTS_OF_ENDPOINT_MAX + 1)].count(True) == (
        ATTEMPTS_OF_ENDPOINT_MAX
    )
    assert lanes.behind == 1
    assert lanes.take("b")
    # No room yet: nothing is asked for.
    assert lanes.catch_up(10, 100) == {}
    lanes.finish("a", slow=False, hung=False)
    assert lanes.catch_up(10, 100) == {"a": 1}
    assert lanes.behind == 0


def test_who_is_behind_does_not_jump_its_own_queue() -> None:
    lanes = Lanes()
    lanes.fall_behind("a")
    assert not lanes.take("a")
    assert lanes.catch_up(10, 100) == {"a": ATTEMPTS_OF_ENDPOINT_MAX}


def test_places_are_shared_out_and_everybody_has_a_turn() -> None:
    lanes = Lanes()
    for endpoint in ENDPOINTS:
        lanes.fall_behind(endpoint)
    first = lanes.catch_up(30, 60)
    assert first == dict.fromkeys(ENDPOINTS[:30], 2)
    for endpoint in first:
        lanes.fall_behind(endpoint)
    second = lanes.catch_up(20, 20)
    assert list(second) == [*ENDPOINTS[30:], *ENDPOINTS[:10]]


def test_a_receiver_that_hangs_gives_its_places_back_and_gets_few_from_then_on() -> None:
    lanes = Lanes()
    assert hang(lanes, "a") == ATTEMPTS_OF_ENDPOINT_MAX
    assert lanes.free == ATTEMPTS_QUICK_MAX
    for _ in range(ATTEMPTS_OF_ENDPOINT_MAX):
        lanes.finish("a", slow=True, hung=True)
    assert (lanes.slow, lanes.under_way) == (0, 0)
    assert lanes.room("a") == ATTEMPTS_OF_SUSPECT_MAX
    assert lanes.catch_up(1, 1) == {"a": 1}
    lanes.finish("a", slow=False, hung=False)
    assert lanes.room("a") == ATTEMPTS_OF_ENDPOINT_MAX


def test_very_many_that_hang_leave_room_for_the_others() -> None:
    lanes = Lanes()
    hanging = 0
    for number in range(1_000):
        hanging += hang(lanes, f"endpoint-{number}")
    assert hanging == ATTEMPTS_MAX
    # The first wave ends at the time limit; all of them are suspects now.
    for number in range(hanging // ATTEMPTS_OF_ENDPOINT_MAX):
        for _ in range(ATTEMPTS_OF_ENDPOINT_MAX):
            lanes.finish(f"endpoint-{number}", slow=True, hung=True)
    known = hanging // ATTEMPTS_OF_ENDPOINT_MAX
    again = sum(hang(lanes, f"endpoint-{number % known}") for number in range(1_000))
    assert again <= ATTEMPTS_SLOW_MAX
    assert lanes.take("healthy")


class LanesMachine(RuleBasedStateMachine):
    """Whatever happens in whatever order, the sums are right and no limit is passed."""

    def __init__(self) -> None:
        super().__init__()
        self.lanes = Lanes()
        self.attempts: list[tuple[str, bool]] = []

    @rule(endpoint=st.sampled_from(ENDPOINTS[:6]), times=st.integers(1, 40))
    def take(self, endpoint: str, times: int) -> None:
        for _ in range(times):
            if self.lanes.take(endpoint):
                self.attempts.append((endpoint, False))

    @rule(endpoint=st.sampled_from(ENDPOINTS[:6]))
    def fall_behind(self, endpoint: str) -> None:
        self.lanes.fall_behind(endpoint)

    @rule(endpoints_max=st.integers(1, 6), deliveries_max=st.integers(0, 100))
    def catch_up(self, endpoints_max: int, deliveries_max: int) -> None:
        rooms = self.lanes.catch_up(endpoints_max, deliveries_max)
        assert len(rooms) <= endpoints_max
        assert sum(rooms.values()) <= deliveries_max
        for endpoint, room in rooms.items():
            assert room > 0
            self.attempts += [(endpoint, False)] * room

    @precondition(lambda self: self.attempts)
    @rule(data=st.data())
    def become_slow(self, data: st.DataObject) -> None:
        index = data.draw(st.integers(0, len(self.attempts) - 1))
        endpoint, slow = self.attempts[index]
        if not slow:
            self.lanes.become_slow(endpoint)
            self.attempts[index] = (endpoint, True)

    @precondition(lambda self: self.attempts)
    @rule(data=st.data(), hung=st.booleans(), times=st.integers(1, 20))
    def finish(self, data: st.DataObject, hung: bool, times: int) -> None:
        for _ in range(min(times, len(self.attempts))):
            index = data.draw(st.integers(0, len(self.attempts) - 1))
            endpoint, slow = self.attempts.pop(index)
            self.lanes.finish(endpoint, slow=slow, hung=hung)

    @precondition(lambda self: self.attempts)
    @rule()
    def give_back(self) -> None:
        endpoint, slow = self.attempts[-1]
        if not slow:
            self.attempts.pop()
            self.lanes.give_back(endpoint)

    @invariant()
    def sums_are_right(self) -> None:
        assert self.lanes.under_way == len(self.attempts) <= ATTEMPTS_MAX
        assert self.lanes.slow == sum(slow for _, slow in self.attempts)
        assert self.lanes.under_way - self.lanes.slow <= ATTEMPTS_QUICK_MAX
        for endpoint in ENDPOINTS[:6]:
            own = sum(name == endpoint for name, _ in self.attempts)
            assert own <= ATTEMPTS_OF_ENDPOINT_MAX
            assert self.lanes.room(endpoint) <= ATTEMPTS_OF_ENDPOINT_MAX - own
        assert len(self.lanes) <= 6


LanesMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestLanes = LanesMachine.TestCase
