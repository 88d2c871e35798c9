"""Placement of shards on hosts, and of processes on nodes."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.placement import (
    ProcessSpec,
    ShardMove,
    adopt_orphans,
    default_reserve,
    even_out,
    hand_off,
    missing_hosts,
    name_on,
    place,
    placed_name,
    reserves,
    successor_number,
    successor_of,
)

Owners = dict[int, str | None]


def after(owners: Owners, moves: list[ShardMove]) -> Owners:
    """The owners after ``moves``. Checks that each giver owns the shards that it gives."""
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
def test_unowned_shards_go_to_the_hosts_with_the_fewest_shards(
    owners: Owners, hosts: list[str], loads: dict[str, int]
) -> None:
    result = after(owners, adopt_orphans(owners, hosts))
    assert Counter(result.values()) == loads


def test_living_owner_keeps_its_shards() -> None:
    owners: Owners = {0: "a", 1: "a", 2: "a", 3: "a", 4: None}
    assert adopt_orphans(owners, ["a", "b"]) == [ShardMove(None, "b", (4,))]


@given(
    st.lists(st.sampled_from(["a", "b", "c", "dead", None]), min_size=1, max_size=64),
    st.sets(st.sampled_from(["a", "b", "c"]), min_size=1),
)
def test_all_shards_are_owned_and_evenly_distributed_with_few_moves(
    listed: list[str | None], hosts: set[str]
) -> None:
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


@pytest.mark.parametrize(
    ("hosts", "cores", "expected"), [(1, 2, 0), (2, 1, 1), (2, 3, 1), (3, 2, 1), (2, 4, 0), (8, 8, 0)]
)
def test_half_of_the_hosts_of_a_small_machine_are_reserves(hosts: int, cores: int, expected: int) -> None:
    assert default_reserve(hosts, cores) == expected


@pytest.mark.parametrize(
    ("owners", "nodes", "serving", "expected"),
    [
        ({0: None}, {"a": "n1", "b": "n1"}, 1, {"b"}),
        ({0: "b"}, {"a": "n1", "b": "n1"}, 1, {"a"}),
        ({0: "b"}, {"a": "n1", "b": "n1"}, 2, set()),
        ({0: "b", 1: "b", 2: "a"}, {"a": "n1", "b": "n1", "c": "n1"}, 2, {"c"}),
        ({0: "b", 1: "dead"}, {"a": "n1", "b": "n2", "c": "n2"}, 1, {"c"}),
        ({0: "a"}, {}, 1, set()),
    ],
)
def test_hosts_with_most_shards_serve_and_the_others_of_their_node_are_reserves(
    owners: Owners, nodes: dict[str, str], serving: int, expected: set[str]
) -> None:
    assert reserves(owners, nodes, serving) == expected


@pytest.mark.parametrize(
    ("hosts", "unable", "taker"),
    [
        (["a", "b", "c"], [], "a"),
        (["a", "b", "c"], ["a"], "b"),
        (["b", "c"], ["b"], "c"),
        (["c"], ["c"], "c"),
    ],
)
def test_reserve_adopts_only_where_no_other_host_can(hosts: list[str], unable: list[str], taker: str) -> None:
    """The reserves are b and c."""
    assert adopt_orphans({0: "dead"}, hosts, unable, {"b", "c"}) == [ShardMove(None, taker, (0,))]


@given(
    st.lists(st.sampled_from(["a", "b", "c", "d"]), min_size=1, max_size=64),
    st.sets(st.sampled_from(["a", "b", "c", "d"])),
)
def test_reserves_give_all_their_shards_away(listed: list[str], reserve: set[str]) -> None:
    owners: Owners = dict(enumerate(listed))
    hosts = ["a", "b", "c", "d"]
    loads = Counter(after(owners, even_out(owners, hosts, reserve)).values())
    serving = [host for host in hosts if host not in reserve] or hosts
    assert set(loads) <= set(serving)
    assert max(loads[host] for host in serving) - min(loads[host] for host in serving) <= 1


@pytest.mark.parametrize(
    ("owners", "takers", "loads"),
    [
        ({0: "a", 1: "a", 2: "b"}, ["b", "c"], {"b": 2, "c": 1}),
        ({0: "a", 1: "a", 2: "b", 3: None}, ["c"], {"b": 1, "c": 2, None: 1}),
        ({0: "b"}, ["c"], {"b": 1}),
        ({0: "a", 1: "a", 2: "a", 3: "a"}, ["b", "c"], {"b": 2, "c": 2}),
    ],
)
def test_giver_hands_off_all_its_shards(owners: Owners, takers: list[str], loads: dict[str, int]) -> None:
    moves = hand_off(owners, "a", takers)
    assert Counter(after(owners, moves).values()) == loads
    assert all(move.giver == "a" for move in moves)


@pytest.mark.parametrize(
    ("nodes", "hosts", "missing"),
    [
        (["n1"], [], ["n1", "n1"]),
        (["n1"], ["n1", "n1"], []),
        (["n2", "n1"], [], ["n1", "n2", "n1", "n2"]),
        (["n1", "n2"], ["n1", "n1", "n2"], ["n2"]),
        (["n1"], ["n1", "n2", "n2"], ["n1"]),  # hosts of a node that has left are ignored
        (["n1"], ["n1", "n1", "n1"], []),
        ([], ["n1"], []),
    ],
)
def test_missing_hosts_are_listed_for_each_node(
    nodes: list[str], hosts: list[str], missing: list[str]
) -> None:
    assert missing_hosts(nodes, hosts, 2) == missing


SPECS = [
    ProcessSpec("coordinator", "m:c", "supervisor_node"),
    ProcessSpec("relay", "m:r"),
    ProcessSpec("edge", "m:e", "each"),
    ProcessSpec("dispatcher-0", "m:d", "round_robin"),
    ProcessSpec("dispatcher-1", "m:d", "round_robin"),
    ProcessSpec("dispatcher-2", "m:d", "round_robin"),
]
OTHER, THIRD = "b" * 56, "c" * 56
HOME = "f" * 56


ALONE = {"coordinator": HOME, "relay": HOME, "edge": HOME, "dispatcher-0": HOME}


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ([HOME], ALONE | {"dispatcher-1": HOME, "dispatcher-2": HOME}),
        (
            [OTHER, HOME],
            ALONE | {name_on("edge", OTHER): OTHER, "dispatcher-1": OTHER, "dispatcher-2": HOME},
        ),
        (
            [THIRD, OTHER, HOME],
            ALONE
            | {name_on("edge", OTHER): OTHER, name_on("edge", THIRD): THIRD}
            | {"dispatcher-1": OTHER, "dispatcher-2": THIRD},
        ),
    ],
)
def test_processes_are_placed_by_their_spread(nodes: list[str], expected: dict[str, str]) -> None:
    placed = place(SPECS, nodes, HOME)
    assert {each.name: each.node for each in placed} == expected
    assert {each.spec.name for each in placed if each.pinned} == {"edge"}
    order = [spec.name for spec in SPECS]
    ranks = [order.index(each.spec.name) for each in placed]
    assert ranks == sorted(ranks), "processes have the order of their specs"


@given(st.sets(st.sampled_from([OTHER, THIRD, "d" * 56]), max_size=3))
def test_names_do_not_change_when_other_nodes_join_or_leave(others: set[str]) -> None:
    alone = {each.name: each.node for each in place(SPECS, [HOME], HOME) if each.pinned}
    spread = {each.name: each.node for each in place(SPECS, [HOME, *others], HOME) if each.pinned}
    assert alone.items() <= spread.items()
    assert set(spread.values()) == {HOME, *others}


def test_names_contain_the_node_when_the_supervisors_node_runs_no_processes() -> None:
    placed = place(SPECS, [THIRD, OTHER], HOME)
    assert {each.name: each.node for each in placed} == {
        "coordinator": HOME,
        "relay": OTHER,
        name_on("edge", OTHER): OTHER,
        name_on("edge", THIRD): THIRD,
        "dispatcher-0": OTHER,
        "dispatcher-1": THIRD,
        "dispatcher-2": OTHER,
    }


def test_host_that_could_not_take_gets_shards_only_without_other_hosts() -> None:
    owners: dict[int, str | None] = {0: "a", 1: "a", 2: None, 3: None}
    assert adopt_orphans(owners, ["a", "b"], {"b"}) == [ShardMove(None, "a", (2, 3))]
    assert adopt_orphans(owners, ["b"], {"b"}) == [ShardMove(None, "b", (0, 1, 2, 3))]


def test_standby_is_on_another_node_than_the_supervisor_if_there_is_one() -> None:
    specs = [ProcessSpec("coordinator", "m:c", "supervisor_node"), ProcessSpec("standby", "m:c", "last_node")]

    def nodes(*living: str) -> list[str]:
        return [each.node for each in place(specs, living, HOME)]

    assert nodes(HOME) == [HOME, HOME]
    assert nodes(HOME, OTHER) == [HOME, OTHER]
    assert nodes(OTHER) == [HOME, OTHER]
    assert nodes(OTHER, THIRD) == [HOME, THIRD]


def test_warm_standby_exists_with_several_nodes_and_not_beside_its_process() -> None:
    specs = [ProcessSpec("relay", "m:r"), ProcessSpec("relay-2", "m:r", "standby")]

    def placed(*living: str) -> dict[str, str]:
        return {each.name: each.node for each in place(specs, living, HOME)}

    assert placed(HOME) == {"relay": HOME}
    assert placed(OTHER) == {"relay": OTHER}
    assert placed(HOME, OTHER) == {"relay": HOME, "relay-2": OTHER}
    assert placed(THIRD, OTHER) == {"relay": OTHER, "relay-2": THIRD}
    assert all(each.spec.singleton and not each.pinned for each in place(specs, [HOME, OTHER], HOME))


def test_successors_keep_the_placed_name() -> None:
    assert successor_of("edge@bbbbbbbb", 2) == "edge@bbbbbbbb.2"
    assert placed_name("edge@bbbbbbbb.2") == placed_name("edge@bbbbbbbb") == "edge@bbbbbbbb"
    assert successor_number("edge@bbbbbbbb.12") == 12
    assert successor_number("dispatcher-0") == 0
