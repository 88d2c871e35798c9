"""Authorization rules in hosts: in force after their acknowledgement, durable, exact under concurrency."""

from __future__ import annotations

from typing import Any

import msgspec

from actors.journal.contract import RejectedError, UnknownOutcomeError
from engine.commands import Authorize, Reverse, reference_of_message
from engine.decision.decide import Decision
from engine.decision.decide import authorize as decide
from engine.decision.recorded import decode_inputs
from engine.replies import Done, NotExecuted, Reply, WireAnswer
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
from tests.support.engine.build import (
    an_id,
    authorize,
    change_programme,
    create_card,
    create_programme,
    key,
    load,
    replace_card,
    set_cardholder_status,
    wire,
)
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
GROCER = condition("mcc", "eq", "5411")
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
    versions = {name: decode_rule(text) for name, text in cluster.store.rule_versions.items()}
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


# --- in force after the acknowledgement --------------------------------------------------------------------


async def test_rule_is_in_force_on_every_host_once_it_is_acknowledged(cluster: Cluster) -> None:
    first = await furnished(cluster)
    second = await cluster.add("b", [3])
    first.host.epochs.pop(3)
    await second.execute(load(902, card_id=SECOND.id, amount_minor=10_000))
    assert approved(await second.execute_one(spend(1, card_id=SECOND.id, mcc="7995")))
    cluster.publishing = Hold()
    pending = first.submit(of_programme(1, CASINO))
    await cluster.publishing.reached.wait()
    await idle()
    assert not pending.done()
    cluster.publishing.release()
    await pending
    assert declined(await second.execute_one(spend(2, card_id=SECOND.id, mcc="7995")))
    await first.execute(change_rule(1, programme_id=ADMIN.id, state="retired"))
    assert approved(await second.execute_one(spend(3, card_id=SECOND.id, mcc="7995")))
    assert replayed(cluster) == 3


async def test_rule_of_a_host_that_dies_before_its_announcement(cluster: Cluster) -> None:
    """The caller repeats the command, and the next owner announces what the journal has."""
    first = await furnished(cluster)
    second = await cluster.add("b", [3])
    first.host.epochs.pop(3)
    await second.execute(load(902, card_id=SECOND.id, amount_minor=10_000))
    cluster.publish_failures = [RuntimeError("the host dies")]
    (refused,) = await first.execute(of_programme(1, CASINO))
    assert isinstance(refused, NotExecuted)
    third = await cluster.add("c", [shard for shard in ALL_SHARDS if shard != 3])
    repeated = await third.execute_one(of_programme(1, CASINO))
    assert isinstance(repeated, Done)
    assert declined(await second.execute_one(spend(2, card_id=SECOND.id, mcc="7995")))


async def test_rule_of_a_card_survives_the_death_of_its_host(cluster: Cluster) -> None:
    host = await furnished(cluster)
    created = await host.execute_one(of_card(1, CASINO, state="draft"))
    assert isinstance(created, Done)
    assert approved(await host.execute_one(spend(1, mcc="7995")))
    await host.execute(change_card_rule(1, card_id=FIRST.id, state="active"))
    assert declined(await host.execute_one(spend(2, mcc="7995")))
    second = await takeover(cluster)
    assert declined(await second.execute_one(spend(3, mcc="7995")))
    changed = await second.execute_one(change_card_rule(1, 2, card_id=FIRST.id, when=(GROCER,)))
    assert isinstance(changed, Done)
    assert changed.body["version"] == 2
    assert approved(await second.execute_one(spend(4, mcc="7995")))
    assert declined(await second.execute_one(spend(5, mcc="5411")))
    assert replayed(cluster) == 5


async def test_rule_whose_commit_fails_is_not_in_force(cluster: Cluster) -> None:
    host = await furnished(cluster)
    await host.execute(spend(1))
    host.faults.refuses = lambda rows: RejectedError("full") if rows.rules else None
    (refused,) = await host.execute(of_card(1, GROCER))
    assert isinstance(refused, NotExecuted)
    assert approved(await host.execute_one(spend(2)))
    assert cluster.store.authorization_rules.rows == {}


# --- velocity ----------------------------------------------------------------------------------------------


def reverse(number: int, of: Authorize, **parts: Any) -> Reverse:
    return Reverse(
        id=an_id(0x70_0000 + number, 0xA7),
        command_key=key(0x70_0000 + number),
        card_id=of.card_id,
        fingerprint=key(0x70_0000 + number),
        wire=wire(0x7000 + number),
        references=(reference_of_message(of.command_key),),
        **parts,
    )


async def test_history_from_before_the_activation_counts(cluster: Cluster) -> None:
    host = await furnished(cluster)
    await host.execute(*(spend(number) for number in range(3)))
    await host.execute(of_programme(1, THREE_IN_TEN_MINUTES))
    assert declined(await host.execute_one(spend(3)))
    cluster.clock.ms += 600_000
    replies = await host.execute(*(spend(number) for number in range(4, 9)))
    assert sum(map(approved, replies)) == 3
    assert replayed(cluster) == 9


async def test_commands_that_are_not_durable_at_the_activation_count(cluster: Cluster) -> None:
    """The rule reaches the host of the card while three approvals are in a commit."""
    first = await furnished(cluster)
    second = await cluster.add("b", [3])
    first.host.epochs.pop(3)
    await second.execute(load(902, card_id=SECOND.id, amount_minor=10_000))
    hold = second.faults.hold("during", "commit")
    earlier = second.submit(*(spend(number, card_id=SECOND.id) for number in range(3)))
    await hold.reached.wait()
    await first.execute(of_programme(1, THREE_IN_TEN_MINUTES))
    later = second.submit(spend(3, card_id=SECOND.id))
    await idle()
    assert second.faults.calls["load_past"] == 0
    hold.release()
    assert all(map(approved, await earlier))
    assert declined((await later)[0])
    assert second.faults.calls["load_past"] == 1


async def test_a_reversal_gives_back_where_the_original_counted(cluster: Cluster) -> None:
    host = await furnished(cluster)
    await host.execute(of_programme(1, velocity("amount", "PT10M", "gt", 3_000)))
    sales = [spend(number, amount_minor=1_000) for number in range(3)]
    assert all(map(approved, await host.execute(*sales)))
    assert declined(await host.execute_one(spend(3, amount_minor=1)))
    await host.execute(reverse(1, sales[0], remaining_minor=400))
    assert declined(await host.execute_one(spend(4, amount_minor=601)))
    assert approved(await host.execute_one(spend(5, amount_minor=600)))
    second = await takeover(cluster)
    await second.execute(reverse(2, sales[1]))
    assert declined(await second.execute_one(spend(6, amount_minor=1_001)))
    assert approved(await second.execute_one(spend(7, amount_minor=1_000)))
    assert replayed(cluster) == 8


async def test_increments_and_partial_approvals_count_their_amounts(cluster: Cluster) -> None:
    host = await furnished(cluster, cents=2_500)
    await host.execute(
        of_programme(1, velocity("amount", "PT10M", "gt", 3_000)),
        of_programme(2, velocity("count", "PT10M", "gt", 2)),
    )
    sale = spend(1, amount_minor=1_000)
    raising = spend(2, amount_minor=500, references=(reference_of_message(sale.command_key),))
    assert approved(await host.execute_one(sale))
    assert approved(await host.execute_one(raising))
    partial = await host.execute_one(spend(3, amount_minor=1_500, partial_allowed=True))
    assert isinstance(partial, WireAnswer)
    assert partial.approved_minor == 1_000
    second = await takeover(cluster)
    await second.execute(load(950, card_id=FIRST.id, amount_minor=10_000))
    too_much = spend(4, amount_minor=501, references=(reference_of_message(sale.command_key),))
    assert declined(await second.execute_one(too_much))
    raising = spend(5, amount_minor=500, references=(reference_of_message(sale.command_key),))
    assert approved(await second.execute_one(raising))
    assert declined(await second.execute_one(spend(6, amount_minor=1)))


async def test_velocity_of_an_account_counts_all_its_cards(cluster: Cluster) -> None:
    host = await furnished(cluster)
    joining = create_card(7, 0xA7, programme_id=ADMIN.id, account_id=FIRST.account_id, opens_account=False)
    await host.execute(joining)
    await host.execute(of_programme(1, velocity("count", "P1D", "gt", 4, of="account")))
    commands = [spend(number, card_id=(FIRST.id, joining.id)[number % 2]) for number in range(20)]
    replies = await host.execute(*commands)
    assert sum(map(approved, replies)) == 4
    second = await takeover(cluster)
    replies = await second.execute(spend(30), spend(31, card_id=joining.id))
    assert all(map(declined, replies))
    await second.execute(reverse(1, commands[0]))
    replies = await second.execute(spend(32, card_id=joining.id), spend(33))
    assert list(map(approved, replies)) == [True, False]
    assert replayed(cluster) == 24


async def test_velocity_of_an_unfunded_card_counts_its_own_past(cluster: Cluster) -> None:
    host = await cluster.add("a", ALL_SHARDS)
    gateway = create_programme(2, mode="gateway")
    alone = create_card(8, programme_id=gateway.id, account_id=None, opens_account=False)
    await host.execute(gateway)
    await host.execute(alone)
    of_account = velocity("count", "P1D", "gt", 2, of="account")
    await host.execute(create_card_rule(1, of_account, card_id=alone.id))
    replies = await host.execute(*(spend(number, card_id=alone.id) for number in range(4)))
    assert list(map(approved, replies)) == [True, True, False, False]


async def test_first_purchase_at_a_merchant(cluster: Cluster) -> None:
    host = await furnished(cluster)
    await host.execute(spend(1, merchant_id="M1"))
    await host.execute(of_programme(1, condition("first_at_merchant", "eq", True)))
    assert approved(await host.execute_one(spend(2, merchant_id="M1")))
    assert declined(await host.execute_one(spend(3, merchant_id="M2")))


async def test_replacement_continues_rules_and_past_of_its_card(cluster: Cluster) -> None:
    host = await furnished(cluster)
    await host.execute(of_card(1, THREE_IN_TEN_MINUTES))
    sales = [spend(number) for number in range(3)]
    assert all(map(approved, await host.execute(*sales)))
    replacing = replace_card(1, card_id=FIRST.id, shard=0xA7)
    replaced = await host.execute_one(replacing)
    assert isinstance(replaced, Done)
    new = replacing.id
    await host.execute(set_cardholder_status(77, card_id=new, active=True))
    assert declined(await host.execute_one(spend(10, card_id=new)))
    await host.execute(reverse(1, sales[0]))
    assert approved(await host.execute_one(spend(11, card_id=new)))
    second = await takeover(cluster)
    assert declined(await second.execute_one(spend(12, card_id=new)))
    changed = await second.execute_one(change_card_rule(1, card_id=new, state="retired"))
    assert isinstance(changed, Done)
    assert changed.body["scope"] == {"type": "card", "id": new}
    assert approved(await second.execute_one(spend(13, card_id=new)))
    assert replayed(cluster) == 7


async def test_cards_without_velocities_have_no_past_in_memory(cluster: Cluster) -> None:
    host = await furnished(cluster)
    await host.execute(of_programme(1, CASINO))
    await host.execute(spend(1))
    actor = host.host.activation.cards[FIRST.id]
    assert actor.history is None
    assert host.faults.calls["load_past"] == 0


async def test_past_that_cannot_be_read_at_once_is_read_again(cluster: Cluster) -> None:
    host = await furnished(cluster)
    await host.execute(*(spend(number) for number in range(3)))
    await host.execute(of_programme(1, THREE_IN_TEN_MINUTES))
    host.faults.fail("before", "load_past", UnknownOutcomeError("away"))
    assert declined(await host.execute_one(spend(3)))
    assert host.faults.calls["load_past"] == 2


async def test_time_zone_of_the_programme_changes(cluster: Cluster) -> None:
    """Calendar windows of another zone are built anew from the past."""
    host = await furnished(cluster)
    await host.execute(of_programme(1, velocity("count", "day", "gt", 2)))
    assert all(map(approved, await host.execute(spend(1), spend(2))))
    await host.execute(change_programme(1, programme_id=ADMIN.id, timezone="Europe/Dublin"))
    assert declined(await host.execute_one(spend(3)))
    assert host.faults.calls["load_past"] == 2


async def test_velocity_survives_passivation(cluster: Cluster) -> None:
    host = await cluster.add("a", ALL_SHARDS, active_cards_max=1)
    await furnish(host)
    await host.execute(of_programme(1, THREE_IN_TEN_MINUTES))
    for number in range(5):
        reply = await host.execute_one(spend(number))
        await host.execute(authorize(100 + number, card_id=SECOND.id, amount_minor=0))
        assert approved(reply) == (number < 3)


async def test_unknown_commit_outcomes_lose_and_double_nothing(cluster: Cluster) -> None:
    """Each commit of the spends first fails with an unknown outcome, once before and once after it took
    effect."""
    host = await furnished(cluster)
    await host.execute(of_programme(1, THREE_IN_TEN_MINUTES))
    host.faults.fail("before", "commit", UnknownOutcomeError("lost"))
    host.faults.fail("after", "commit", UnknownOutcomeError("lost"))
    replies = await host.execute(*(spend(number) for number in range(64)))
    assert sum(map(approved, replies)) == 3
    assert sum(map(declined, replies)) == 61


# --- shadow rules and matches ------------------------------------------------------------------------------


async def test_matches_of_active_and_shadow_rules_are_recorded_with_the_decision(cluster: Cluster) -> None:
    host = await furnished(cluster)
    await host.execute(
        of_programme(1, condition("amount", "gte", 500), state="shadow"),
        of_programme(2, CASINO),
    )
    small, large, casino = spend(1), spend(2, amount_minor=500), spend(3, amount_minor=900, mcc="7995")
    replies = await host.execute(small, large, casino)
    assert list(map(approved, replies)) == [True, True, False]
    matches = cluster.store.rule_matches.rows
    assert {
        (row["rule_id"], row["decision_id"], row["shadow"], row["decided"], row["amount_minor"], row["mcc"])
        for row in matches.values()
    } == {
        (an_id(0x0F_0001), large.id, True, "approved", 500, "5411"),
        (an_id(0x0F_0001), casino.id, True, "declined", 900, "7995"),
        (an_id(0x0F_0002), casino.id, False, "declined", 900, "7995"),
    }
    assert replayed(cluster) == 3
    decisions = [
        msgspec.json.decode(row["decision"], type=Decision) for row in cluster.journal_of(FIRST.id)[2:]
    ]
    assert [each.decline_detail for each in decisions] == [None, None, "reason_2"]


async def test_decision_event_carries_the_issuers_reason(cluster: Cluster) -> None:
    host = await furnished(cluster)
    await host.execute(of_programme(1, CASINO))
    await host.execute(spend(1, mcc="7995"))
    events = [row for row in cluster.store.events.rows.values() if row["type"] == "authorization.decided"]
    data = msgspec.json.decode(events[-1]["data"])
    assert (data["decline_reason"], data["decline_detail"]) == ("rule_declined", "reason_1")


async def test_rules_of_a_delegated_programme_decide_before_its_endpoint(cluster: Cluster) -> None:
    host = await furnished(cluster)
    changes = {"decisioning": "delegated", "decision_url": "https://decide.example"}
    await host.execute(
        change_programme(1, programme_id=ADMIN.id, **changes), of_programme(1, THREE_IN_TEN_MINUTES)
    )
    replies = await host.execute(*(spend(number) for number in range(8)))
    await turns(lambda: len(cluster.programmes.questions) >= 3)
    assert sum(map(approved, replies)) == 3
    assert declined(await host.execute_one(spend(20)))
    assert replayed(cluster) == 9
