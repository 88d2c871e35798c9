"""Which host gets which shard."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.placement import Move, adopt_orphans, even_out

Owners = dict[int, str | None]


def after(owners: Owners, moves: list[Move]) -> Owners:
    """The owners once ``moves`` have happened; a giver must own what it gives."""
    result = dict(owners)
    for move in moves:
        for shard in move.shards:
            assert move.giver is None or result[shard] == move.giver
            result[shard] = move.taker
    return result


@pytest.mark.parametrize(
    ("owners", "hosts", "loads"),
    [
        ({0: None, 1: None, 2: None, 3: None}, ["a", "b"], {"a": 2, "b": 2}),
        ({0: "dead", 1: "a", 2: "dead", 3: "a"}, ["a", "b"], {"a": 2, "b": 2}),
        ({0: "dead", 1: "dead", 2: "dead"}, ["a"], {"a": 3}),
        ({0: "a", 1: "a", 2: "a", 3: "dead"}, ["a", "b"], {"a": 3, "b": 1}),
        ({0: "a", 1: "b"}, ["a", "b"], {"a": 1, "b": 1}),
    ],
)
def test_orphans_go_to_the_hosts_with_the_fewest(
    owners: Owners, hosts: list[str], loads: dict[str, int]
) -> None:
    result = after(owners, adopt_orphans(owners, hosts))
    assert Counter(result.values()) == loads


def test_a_living_owner_keeps_what_it_has() -> None:
    owners: Owners = {0: "a", 1: "a", 2: "a", 3: "a", 4: None}
    assert adopt_orphans(owners, ["a", "b"]) == [Move(None, "b", (4,))]


@given(
    st.lists(st.sampled_from(["a", "b", "c", "dead", None]), min_size=1, max_size=64),
    st.sets(st.sampled_from(["a", "b", "c"]), min_size=1),
)
def test_everything_is_owned_and_even_afterwards(listed: list[str | None], hosts: set[str]) -> None:
    owners: Owners = dict(enumerate(listed))
    owned = after(owners, adopt_orphans(owners, hosts))
    assert set(owned.values()) <= hosts
    assert all(owned[shard] == owner for shard, owner in owners.items() if owner in hosts)
    moves = even_out(owned, hosts)
    even = Counter(after(owned, moves).values())
    loads = [even[host] for host in hosts]
    assert max(loads) - min(loads) <= 1
    moved = sum(len(move.shards) for move in moves)
    surplus = sum(max(0, load - -(-len(owned) // len(hosts))) for load in Counter(owned.values()).values())
    assert moved >= surplus
    assert moved <= surplus + len(hosts)
