"""Idle connections give way to new ones; busy ones, and those of other addresses, keep their places."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from actors.network.connection_slots import RECOGNIZED, SILENT, SPOKEN, ConnectionSlots, source_of


@dataclass(eq=False)
class Connection:
    source: str
    standing: int = SPOKEN
    heard_at: float = 0.0
    busy: bool = False


def filled(
    *connections: Connection, count_max: int = 4, per_source_max: int = 3
) -> ConnectionSlots[Connection]:
    places: ConnectionSlots[Connection] = ConnectionSlots(count_max, per_source_max)
    for connection in connections:
        assert places.admit(connection) is None
    return places


def test_the_longest_quiet_connection_of_the_address_gives_way() -> None:
    others = [Connection("a", heard_at=at) for at in (2.0, 1.0, 3.0)]
    places = filled(*others)
    newcomer = Connection("a")
    assert places.admit(newcomer) is others[1]
    assert set(places) == {others[0], others[2], newcomer}


def test_an_address_at_its_limit_costs_no_other_address_a_place() -> None:
    other = Connection("b", SILENT)
    crowd = [Connection("a", RECOGNIZED, heard_at=9.0) for _ in range(3)]
    places = filled(other, *crowd, count_max=9)
    assert places.admit(Connection("a")) in crowd
    assert other in places


@pytest.mark.parametrize(
    ("connections", "victim"),
    [
        # Standing first, then the address with most connections, then the longest quiet.
        ([("a", RECOGNIZED, 1.0), ("a", SPOKEN, 9.0), ("b", RECOGNIZED, 0.0), ("c", SILENT, 9.0)], 3),
        ([("a", RECOGNIZED, 1.0), ("a", SPOKEN, 9.0), ("b", RECOGNIZED, 0.0), ("c", RECOGNIZED, 0.0)], 1),
        ([("a", SPOKEN, 8.0), ("a", SPOKEN, 9.0), ("b", SPOKEN, 0.0), ("c", SPOKEN, 0.0)], 0),
        ([("a", SPOKEN, 3.0), ("b", SPOKEN, 2.0), ("c", SPOKEN, 1.0), ("d", SPOKEN, 4.0)], 2),
    ],
)
def test_who_gives_way_when_all_places_are_taken(
    connections: list[tuple[str, int, float]], victim: int
) -> None:
    others = [Connection(*each) for each in connections]
    assert filled(*others).admit(Connection("z")) is others[victim]


def test_busy_connections_keep_their_places() -> None:
    others = [Connection("a", busy=True) for _ in range(3)]
    places = filled(*others)
    newcomer = Connection("a")
    assert places.admit(newcomer) is newcomer
    assert set(places) == set(others)


def test_a_place_is_freed_once() -> None:
    first, second = Connection("a"), Connection("a")
    places = filled(first, second, count_max=9, per_source_max=2)
    places.leave(first)
    places.leave(first)
    assert places.admit(first) is None
    assert places.admit(Connection("a")) is not None
    assert len(places) == 2


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
def test_sources(host: str, source: str) -> None:
    assert source_of(host) == source
