"""Connection limits and deadlines, without sockets."""

from __future__ import annotations

from ipaddress import ip_network

import pytest

from actors.connections import ConnectionLimits, ConnectionTable, Drain

LIMITS = ConnectionLimits(connections_max=4, per_address_max=2)


def table(*trusted: str) -> ConnectionTable:
    return ConnectionTable(LIMITS, [ip_network(each) for each in trusted])


class Idle:
    """A connection that records its eviction."""

    evicted = False

    def enforce(self, now: float) -> None:
        """No deadline."""

    def evict(self) -> None:
        self.evicted = True


@pytest.mark.parametrize(
    ("peers", "admitted"),
    [
        (["192.0.2.1"] * 3, [True, True, False]),
        (["192.0.2.1", "192.0.2.1", "::ffff:192.0.2.1"], [True, True, False]),
        (["192.0.2.1", "192.0.2.1", "192.0.2.2"], [True, True, True]),
        (["2001:db8::1", "2001:db8::2", "2001:db8::3"], [True, True, False]),
        (["2001:db8::1", "2001:db8::2", "2001:db8:0:1::3"], [True, True, True]),
        (["10.0.0.1"] * 5, [True, True, True, True, False]),
        ([None] * 3, [True, True, False]),
    ],
)
def test_admission_counts_in_all_and_by_address(peers: list[str | None], admitted: list[bool]) -> None:
    connections = table("10.0.0.0/8")
    assert [connections.admit(peer) is not None for peer in peers] == admitted


def test_ended_admission_frees_its_place_once() -> None:
    connections = table()
    first, second = connections.admit("192.0.2.1"), connections.admit("192.0.2.1")
    assert first is not None
    assert second is not None
    first.end()
    first.end()
    assert connections.count == 1
    assert connections.admit("192.0.2.1") is not None
    assert connections.admit("192.0.2.1") is None


def test_full_table_evicts_the_longest_idle_connection() -> None:
    connections = table("10.0.0.0/8")
    old, new = Idle(), Idle()
    for _ in range(4):
        assert connections.admit("10.0.0.1") is not None
    connections.idle.update({old: None, new: None})
    assert connections.admit("192.0.2.1") is not None
    assert (old.evicted, new.evicted) == (True, False)


def test_address_limit_evicts_no_connection_of_others() -> None:
    connections = table()
    idle = Idle()
    connections.idle[idle] = None
    assert [connections.admit("192.0.2.1") is not None for _ in range(3)] == [True, True, False]
    assert not idle.evicted


@pytest.mark.parametrize(
    ("unsent", "overdue"),
    [
        ([(0, 0), (9, 0), (20, 0)], False),
        ([(0, 5), (9, 5)], False),
        ([(0, 5), (10, 5)], True),
        ([(0, 5), (9, 1), (10, 1)], True),
        ([(0, 5), (9, 0), (10, 5), (19, 5)], False),
    ],
)
def test_write_buffer_is_overdue_unless_it_emptied(unsent: list[tuple[int, int]], *, overdue: bool) -> None:
    drain = Drain()
    assert [drain.overdue(size, now, 10.0) for now, size in unsent][-1] is overdue
