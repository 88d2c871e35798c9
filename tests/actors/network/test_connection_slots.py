"""At a limit, an idle connection is closed for a new one; busy ones and those of other addresses stay."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from actors.network.connection_slots import (
    CARD_RECOGNIZED,
    NO_REQUEST,
    REQUESTED,
    ConnectionSlots,
    source_of,
)


@dataclass(eq=False)
class Connection:
    source: str
    rank: int = REQUESTED
    received_at: float = 0.0
    busy: bool = False


def filled(
    *connections: Connection, count_max: int = 4, per_source_max: int = 3
) -> ConnectionSlots[Connection]:
    slots: ConnectionSlots[Connection] = ConnectionSlots(count_max, per_source_max)
    for connection in connections:
        assert slots.admit(connection) is None
    return slots


def test_connection_quiet_longest_is_evicted_at_the_limit_of_its_address() -> None:
    others = [Connection("a", received_at=at) for at in (2.0, 1.0, 3.0)]
    slots = filled(*others)
    newcomer = Connection("a")
    assert slots.admit(newcomer) is others[1]
    assert set(slots) == {others[0], others[2], newcomer}


def test_address_at_its_limit_evicts_no_connection_of_another_address() -> None:
    other = Connection("b", NO_REQUEST)
    same_address = [Connection("a", CARD_RECOGNIZED, received_at=9.0) for _ in range(3)]
    slots = filled(other, *same_address, count_max=9)
    assert slots.admit(Connection("a")) in same_address
    assert other in slots


_SEEN, _SPOKEN, _SILENT = CARD_RECOGNIZED, REQUESTED, NO_REQUEST


@pytest.mark.parametrize(
    ("connections", "evicted"),
    [
        # Order: rank, then the address with most connections, then the connection quiet longest.
        ([("a", _SEEN, 1.0), ("a", _SPOKEN, 9.0), ("b", _SEEN, 0.0), ("c", _SILENT, 9.0)], 3),
        ([("a", _SEEN, 1.0), ("a", _SPOKEN, 9.0), ("b", _SEEN, 0.0), ("c", _SEEN, 0.0)], 1),
        ([("a", _SPOKEN, 8.0), ("a", _SPOKEN, 9.0), ("b", _SPOKEN, 0.0), ("c", _SPOKEN, 0.0)], 0),
        ([("a", _SPOKEN, 3.0), ("b", _SPOKEN, 2.0), ("c", _SPOKEN, 1.0), ("d", _SPOKEN, 4.0)], 2),
    ],
)
def test_eviction_order_at_the_total_limit(connections: list[tuple[str, int, float]], evicted: int) -> None:
    others = [Connection(*each) for each in connections]
    assert filled(*others).admit(Connection("z")) is others[evicted]


def test_busy_connections_are_not_evicted() -> None:
    others = [Connection("a", busy=True) for _ in range(3)]
    slots = filled(*others)
    newcomer = Connection("a")
    assert slots.admit(newcomer) is newcomer
    assert set(slots) == set(others)


def test_second_release_has_no_effect() -> None:
    first, second = Connection("a"), Connection("a")
    slots = filled(first, second, count_max=9, per_source_max=2)
    slots.release(first)
    slots.release(first)
    assert slots.admit(first) is None
    assert slots.admit(Connection("a")) is not None
    assert len(slots) == 2


@pytest.mark.parametrize(
    ("host", "source"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
    ],
)
def test_source_of_addresses(host: str, source: str) -> None:
    assert source_of(host) == source
