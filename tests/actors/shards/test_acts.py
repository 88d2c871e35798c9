"""The row of an administrative act commits with the effect of its command."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from actors.journal.contract import JournalError, RejectedError, UnknownOutcomeError
from actors.submission import Submission
from engine.acts import Act
from engine.commands import Command
from engine.controls.per_day_cap import PerDayCap
from engine.replies import Done, IdempotencyClaim, Problem, Reply
from tests.support.actors.shards.support import (
    ADMIN,
    ALL_SHARDS,
    FIRST,
    PATIENCE_MS,
    Cluster,
    TestHost,
    furnish,
)
from tests.support.engine.build import (
    NOW_MS,
    change_card,
    change_programme,
    create_card,
    create_programme,
    declare_balance,
    load,
    set_policy,
)
from tests.support.engine.rules import change_rule, create_rule

CLIENT = "019aa6f0-4f2c-7cc1-9a31-5b0f6f3f2a01"


async def carry_out(
    host: TestHost, command: Command, name: str = "update_card", claim: IdempotencyClaim | None = None
) -> Reply:
    act = Act(name, CLIENT, "request-1")
    (reply,) = await host.host.execute([Submission(command, PATIENCE_MS, claim, act=act)])
    return reply


def recorded(cluster: Cluster) -> list[dict[str, Any]]:
    rows = [dict(row) for row in cluster.store.audit_log.rows.values()]
    for row in rows:
        for name in ("before", "after"):
            row[name] = None if row[name] is None else msgspec.json.decode(row[name])
    return rows


async def test_change_of_a_card_records_actor_object_and_changed_members(
    host: TestHost, cluster: Cluster
) -> None:
    await carry_out(host, change_card(card_id=FIRST.id, state="suspended", state_reason="fraud"))
    (row,) = recorded(cluster)
    assert row.pop("id") not in {FIRST.id, change_card().id}
    assert row == {
        "tenant_id": FIRST.tenant_id,
        "live": FIRST.live,
        "recorded_at": NOW_MS,
        "actor_kind": "client",
        "actor": CLIENT,
        "act": "update_card",
        "object_kind": "card",
        "object_id": FIRST.id,
        "before": {"state": "active", "state_reason": None},
        "after": {"state": "suspended", "state_reason": "fraud"},
        "request_id": "request-1",
    }


async def test_change_of_controls_records_both_lists(host: TestHost, cluster: Cluster) -> None:
    await carry_out(host, change_card(card_id=FIRST.id, controls=(PerDayCap(3),)))
    (row,) = recorded(cluster)
    assert row["after"] == {"controls": [{"kind": "per_day_cap", "count": 3}]}
    assert row["before"].keys() == {"controls"}


async def test_new_card_and_new_programme_are_recorded_as_a_whole(host: TestHost, cluster: Cluster) -> None:
    about: dict[str, Any] = {"external_ref": "crm-7", "metadata": {"team": "north"}}
    new = msgspec.structs.replace(create_programme(7), **about)
    await carry_out(host, new, "create_program")
    await carry_out(host, create_card(7, programme_id=ADMIN.id, **about), "create_card")
    programme, card = recorded(cluster)
    for row in (programme, card):
        assert {name: row["after"][name] for name in about} == about
    assert (programme["object_kind"], programme["object_id"]) == ("programme", create_programme(7).id)
    assert programme["before"] is None
    assert programme["after"]["name"] == create_programme(7).config.name
    assert "sealed" not in str(programme)
    assert (card["object_kind"], card["object_id"], card["before"]) == ("card", create_card(7).id, None)
    assert card["after"]["last4"] == create_card(7).last4


async def test_change_of_a_programme_and_of_its_policy_are_recorded(host: TestHost, cluster: Cluster) -> None:
    url = "https://decide.example.com/a?token=secret"
    await carry_out(host, change_programme(programme_id=ADMIN.id, decision_url=url), "update_program")
    await carry_out(host, set_policy(programme_id=ADMIN.id, mode="decline_all"), "set_stip_policy")
    address, policy = recorded(cluster)
    assert address["after"] == {"decision_url": "https://decide.example.com/a?***", "version": 2}
    assert policy["before"]["stip_policy"]["mode"] != "decline_all"
    assert policy["after"]["stip_policy"]["mode"] == "decline_all"


async def test_repeated_declaration_of_one_balance_is_recorded_each_time(
    host: TestHost, cluster: Cluster
) -> None:
    for number in (1, 2):
        await carry_out(host, declare_balance(number, card_id=FIRST.id), "declare_balance")
    first, second = recorded(cluster)
    assert first["before"] == {"declared_balance": None}
    assert first["after"] == {"declared_balance": {"amount": "25.00", "currency": "EUR"}}
    assert second["before"] is None
    assert second["after"]["balance"] == {"amount": "25.00", "currency": "EUR"}


async def test_change_of_a_rule_is_recorded_about_the_rule(host: TestHost, cluster: Cluster) -> None:
    made = create_rule(1, programme_id=ADMIN.id, state="draft")
    await carry_out(host, made, "create_authorization_rule")
    for number, state in enumerate(("active", "active", "retired"), start=1):
        change = change_rule(1, number, programme_id=ADMIN.id, state=state)
        assert isinstance(await carry_out(host, change, "retire_authorization_rule"), Done)
    created, activated, retired = recorded(cluster)
    assert {(row["object_kind"], row["object_id"]) for row in recorded(cluster)} == {
        ("authorization_rule", made.id)
    }
    assert (created["before"], created["after"]["reason"]) == (None, "reason_1")
    assert (activated["before"], activated["after"]) == ({"state": "draft"}, {"state": "active"})
    assert (retired["before"], retired["after"]) == ({"state": "active"}, {"state": "retired"})


async def test_refusals_and_commands_without_effect_leave_no_row(host: TestHost, cluster: Cluster) -> None:
    assert isinstance(await carry_out(host, change_card(1, card_id=FIRST.id, state="active")), Done)
    assert isinstance(await carry_out(host, change_card(2, card_id=FIRST.id, state="unactivated")), Problem)
    foreign = change_card(3, card_id=FIRST.id, state="suspended", tenant_id=CLIENT)
    assert isinstance(await carry_out(host, foreign), Problem)
    assert isinstance(await carry_out(host, create_programme(7), "create_program"), Done)
    assert isinstance(await carry_out(host, create_programme(7), "create_program"), Done)
    assert [row["act"] for row in recorded(cluster)] == ["create_program"]


async def test_commands_without_an_act_leave_no_row(host: TestHost, cluster: Cluster) -> None:
    await host.execute(load(5, card_id=FIRST.id), change_card(card_id=FIRST.id, state="suspended"))
    assert recorded(cluster) == []


@pytest.mark.parametrize("failure", [UnknownOutcomeError(), RejectedError("SQLSTATE 53100")])
async def test_act_of_a_commit_that_never_happened_leaves_no_row(
    cluster: Cluster, failure: JournalError
) -> None:
    host = await cluster.add("a", ALL_SHARDS)
    await furnish(host)
    host.faults.fail("before", "commit", failure)
    await carry_out(host, change_card(card_id=FIRST.id, state="suspended"))
    (card,) = (row for row in cluster.store.cards.rows.values() if row["id"] == FIRST.id)
    assert [row["after"]["state"] for row in recorded(cluster)] == (
        ["suspended"] if card["state"] == "suspended" else []
    )


async def test_act_of_a_commit_whose_outcome_was_unknown_is_recorded_once(cluster: Cluster) -> None:
    host = await cluster.add("a", ALL_SHARDS)
    await furnish(host)
    host.faults.fail("after", "commit", UnknownOutcomeError())
    reply = await carry_out(host, change_card(card_id=FIRST.id, state="suspended"))
    assert isinstance(reply, Done)
    assert [row["after"]["state"] for row in recorded(cluster)] == ["suspended"]


async def test_copies_under_one_idempotency_key_are_recorded_once(host: TestHost, cluster: Cluster) -> None:
    claim = IdempotencyClaim(b"k" * 32, b"f" * 32)
    for number in (1, 2):
        command = change_card(number, card_id=FIRST.id, state="suspended", state_reason=f"{number}")
        assert isinstance(await carry_out(host, command, claim=claim), Done)
    assert [row["after"]["state_reason"] for row in recorded(cluster)] == ["1"]
