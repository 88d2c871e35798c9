"""Authorization rules in hosts: in force after their acknowledgement, durable, exact under concurrency."""

from __future__ import annotations

from typing import Any

import msgspec

from engine.commands import Authorize, Reverse, reference_of_message
from engine.decision.decide import Decision, authorize as decide
from engine.decision.recorded import decode_inputs
from engine.replies import Done, Reply, WireAnswer
from engine.rules.evaluate import recorded_rules
from engine.rules.model import Rule
from tests.support.actors.shards.support import (
    ADMIN,
    ALL_SHARDS,
    FIRST,
    SECOND,
    Cluster,
    Hold,
    TestHost,
    approved,
    furnish,
    idle,
    turns,
)
from tests.support.engine.build import an_id, authorize, key, load, wire
from tests.support.engine.rules import (
    change_card_rule,
    change_rule,
    condition,
    create_card_rule,
    create_rule,
    velocity,
)

decode_rule = msgspec.json.Decoder(Rule).decode
decode_command = msgspec.json.Decoder(Authorize).decode
CASINO = condition("mcc", "in", ["7995"])
THREE_IN_TEN_MINUTES = velocity("count", "PT10M", "gt", 3)


def spend(number: int, **parts: Any) -> Authorize:
    return authorize(number, **{"card_id": FIRST.id, "amount_minor": 10} | parts)


def of_programme(number: int, *when: Any, **parts: Any) -> Any:
    return create_rule(number, *when, programme_id=ADMIN.id, **parts)


def of_card(number: int, *when: Any, **parts: Any) -> Any:
    return create_card_rule(number, *when, **{"card_id": FIRST.id} | parts)


def declined(reply: Reply) -> bool:
    return isinstance(reply, WireAnswer) and reply.reason == "rule_declined"


async def furnished(cluster: Cluster, cents: int = 10_000) -> TestHost:
    host = await cluster.add("a", ALL_SHARDS)
    await furnish(host, cents=cents)
    return host


async def takeover(cluster: Cluster) -> TestHost:
    """Another host takes all shards."""
    host = await cluster.add("b", ALL_SHARDS)
    cluster.hosts["a"].host.epochs.clear()
    return host


def replayed(cluster: Cluster) -> int:
    """The number of decisions in the journal; each, recomputed from its inputs, has the stored bytes."""
    versions = {
        (row["id"], row["version"]): decode_rule(row["rule"])
        for row in cluster.store.authorization_rule_versions.rows.values()
    }
    decisions = [row for row in cluster.store.journal.rows.values() if row["inputs"]]
    for row in decisions:
        inputs = decode_inputs(row["inputs"])
        rules = recorded_rules(inputs.rules_in_force, versions)
        again = decide(decode_command(row["command"]), inputs, rules)
        assert msgspec.json.encode(again).decode() == row["decision"]
    return len(decisions)


async def test_programme_rule_declines_survives_a_takeover_and_replays(cluster: Cluster) -> None:
    host = await furnished(cluster)
    assert approved(await host.execute_one(spend(1, mcc="7995")))
    created = await host.execute_one(of_programme(1, CASINO))
    assert isinstance(created, Done)
    assert created.status == 201
    assert created.body["state"] == "active"
    assert declined(await host.execute_one(spend(2, mcc="7995")))
    assert approved(await host.execute_one(spend(3, mcc="5411")))
    second = await takeover(cluster)
    assert declined(await second.execute_one(spend(4, mcc="7995")))
    assert approved(await second.execute_one(spend(5, mcc="5411")))
    assert replayed(cluster) == 5


async def test_at_most_three_in_ten_minutes_approves_exactly_three_of_64_parallel(cluster: Cluster) -> None:
    host = await furnished(cluster)
    await host.execute(of_programme(1, THREE_IN_TEN_MINUTES))
    replies = await host.execute(*(spend(number) for number in range(64)))
    assert sum(map(approved, replies)) == 3
    assert sum(map(declined, replies)) == 61
    cluster.clock.ms += 600_000
    assert approved(await host.execute_one(spend(100)))
    assert replayed(cluster) == 65
