"""Programmes: versions, refusals, events."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from engine.execution.execute_programme import (
    ProgrammeExecuted,
    change,
    concerns_hosts,
    create,
    execute_programme,
)
from engine.ids import Derived, derive
from engine.programmes.programme import Programme, ProgrammeConfig, policy_view, programme_view
from engine.programmes.stand_in import Grant, Outage
from engine.replies import Done, Granted, Problem
from tests.support.engine.build import (
    NOW_MS,
    PROGRAMME,
    TENANT,
    an_id,
    ask,
    change_programme,
    create_programme,
    end_outage,
    governed,
    grant_stand_ins,
    policy,
    preview_stand_in,
    programme,
    set_policy,
)

LATER_MS = NOW_MS + 60_000


def events(governed: ProgrammeExecuted) -> list[tuple[str, dict[str, Any]]]:
    return [(event.type, msgspec.json.decode(event.data)) for event in governed.events]


def test_a_programme_begins_with_version_1() -> None:
    command = create_programme(1, timezone="Europe/Dublin", version=7)
    governed = create(command, NOW_MS)
    assert governed.after is not None
    assert governed.after.config == programme(
        id=command.id, timezone="Europe/Dublin", version=1, created_ms=NOW_MS, updated_ms=NOW_MS
    )
    assert governed.reply == Done(201, programme_view(governed.after.config))
    ((type_, data),) = events(governed)
    assert type_ == "programme.created"
    assert (data["programme_id"], data["version"], data["occurred_at"]) == (
        command.id,
        1,
        "2026-11-21T10:00:00.000Z",
    )
    assert {"name", "currency", "timezone", "mode", "status"} <= set(data["changed"])


@pytest.mark.parametrize(
    ("before", "changes", "type_"),
    [
        ({}, {"name": "Fuel"}, "programme.updated"),
        ({}, {"timezone": "Europe/Dublin", "hold_expiry_days": 3}, "programme.updated"),
        ({}, {"status": "suspended"}, "programme.suspended"),
        ({}, {"status": "closed"}, "programme.closed"),
        ({"status": "suspended"}, {"status": "active"}, "programme.updated"),
        ({"status": "suspended"}, {"status": "closed", "name": "Gone"}, "programme.closed"),
        ({"decision_url": "https://x.test"}, {"decisioning": "delegated"}, "programme.updated"),
        ({}, {"decisioning": "delegated", "decision_url": "https://x.test"}, "programme.updated"),
        ({"decision_url": "https://x.test"}, {"decision_url": None}, "programme.updated"),
    ],
)
def test_a_change_makes_the_next_version(before: dict[str, Any], changes: dict[str, Any], type_: str) -> None:
    config = programme(version=4, **before)
    governed = change(change_programme(1, **changes), Programme(config, 1), LATER_MS)
    assert governed.after is not None
    assert governed.after.seq == 2
    assert governed.after.config == msgspec.structs.replace(config, version=5, updated_ms=LATER_MS, **changes)
    assert governed.reply == Done(200, programme_view(governed.after.config))
    assert events(governed) == [
        (
            type_,
            {
                "programme_id": PROGRAMME,
                "version": 5,
                "changed": sorted(changes),
                "occurred_at": "2026-11-21T10:01:00.000Z",
            },
        )
    ]


@pytest.mark.parametrize(
    ("before", "changes"),
    [
        ({}, {}),
        ({}, {"name": "Travel", "status": "active"}),
        ({"status": "closed"}, {"status": "closed", "name": "Travel"}),
    ],
)
def test_no_change_is_success_without_a_version(before: dict[str, Any], changes: dict[str, Any]) -> None:
    config = programme(**before)
    assert change(change_programme(1, **changes), Programme(config, 1), LATER_MS) == ProgrammeExecuted(
        Done(200, programme_view(config))
    )


def test_event_names_only_the_changed_members() -> None:
    governed = change(
        change_programme(1, name="Travel", hold_expiry_days=3), Programme(programme(), 1), LATER_MS
    )
    assert events(governed)[0][1]["changed"] == ["hold_expiry_days"]


@pytest.mark.parametrize(
    ("before", "changes", "status", "slug"),
    [
        ({}, {"tenant_id": an_id(9), "name": "x"}, 404, "not-found"),
        ({}, {"live": True, "name": "x"}, 404, "not-found"),
        ({"status": "closed"}, {"name": "x"}, 409, "invalid-state-transition"),
        ({"status": "closed"}, {"status": "active"}, 409, "invalid-state-transition"),
        ({}, {"status": "draft"}, 409, "invalid-state-transition"),
        ({}, {"decisioning": "delegated"}, 400, "decision-url-missing"),
        (
            {"decisioning": "delegated", "decision_url": "https://x.test"},
            {"decision_url": None},
            400,
            "decision-url-missing",
        ),
    ],
)
def test_refused_change_leaves_the_state(
    before: dict[str, Any], changes: dict[str, Any], status: int, slug: str
) -> None:
    governed = change(change_programme(1, **changes), Programme(programme(**before), 1), LATER_MS)
    assert isinstance(governed.reply, Problem)
    assert (governed.reply.status, governed.reply.slug) == (status, slug)
    assert (governed.after, governed.events) == (None, ())


def test_programme_view_has_the_public_members() -> None:
    view = programme_view(programme(updated_ms=LATER_MS))
    assert set(view) == {
        *("id", "name", "mode", "decisioning", "decision_url", "decision_timeout_ms", "currency", "timezone"),
        *("hold_expiry_days", "kyc_policy", "kyc_document_types", "card_renewal", "status"),
        *("version", "created_at", "updated_at"),
    }
    assert (view["created_at"], view["updated_at"]) == (
        "2026-11-21T10:00:00.000Z",
        "2026-11-21T10:01:00.000Z",
    )
    assert (view["mode"], view["timezone"], view["hold_expiry_days"]) == ("managed", "UTC", 7)
    assert TENANT not in view.values()


def test_programme_config_survives_json() -> None:
    config = programme(timezone="Asia/Kathmandu", status="suspended", decision_url="https://x.test")
    assert msgspec.json.decode(msgspec.json.encode(config), type=ProgrammeConfig) == config


# --- stand-in policy, exposure and outages ---

OUTAGE = derive(an_id(0x90_0000 + 7), Derived.OUTAGE)


def in_outage(used_minor: int = 1_000) -> Programme:
    return Programme(programme(stand_in=policy()), 3, Outage(OUTAGE, NOW_MS, "EUR", used_minor), b"sealed")


def test_new_policy_is_the_next_version_of_the_programme() -> None:
    executed = execute_programme(set_policy(), governed(), LATER_MS)
    assert executed.after is not None
    config = executed.after.config
    assert (config.version, config.updated_ms, config.stand_in.version) == (2, LATER_MS, 2)
    assert executed.reply == Done(200, policy_view(config))
    ((type_, data),) = events(executed)
    assert type_ == "programme.stip_policy.updated"
    assert set(data["changed"]) == {"mode", "max_amount", "max_total_exposure"}


def test_same_policy_is_not_journaled() -> None:
    before = in_outage()
    executed = execute_programme(set_policy(), before, LATER_MS)
    assert executed == ProgrammeExecuted(Done(200, policy_view(before.config)))


def test_policy_view_shows_missing_limits_as_null() -> None:
    view = policy_view(programme())
    assert (view["max_amount"], view["max_total_exposure"]) == (None, None)
    assert view["updated_at"] == "2026-11-21T10:00:00.000Z"


@pytest.mark.parametrize(
    ("before", "parts", "slug"),
    [
        ({}, {"tenant_id": an_id(9)}, "not-found"),
        ({"status": "closed"}, {}, "invalid-state-transition"),
    ],
)
def test_refused_policy_leaves_the_programme(
    before: dict[str, Any], parts: dict[str, Any], slug: str
) -> None:
    executed = execute_programme(set_policy(1, policy(), **parts), governed(**before), LATER_MS)
    assert isinstance(executed.reply, Problem)
    assert (executed.reply.slug, executed.after) == (slug, None)


def test_policy_with_another_budget_currency_resets_the_outages_budget() -> None:
    executed = execute_programme(set_policy(1, policy(budget_currency="USD")), in_outage(), LATER_MS)
    assert executed.after is not None
    assert executed.after.outage == Outage(OUTAGE, NOW_MS, "USD", 0, 2)


def test_first_grant_starts_an_outage() -> None:
    before = Programme(programme(stand_in=policy()), 3)
    executed = execute_programme(grant_stand_ins(7, (ask(1), ask(2))), before, LATER_MS)
    assert executed.after is not None
    assert executed.after.outage == Outage(OUTAGE, LATER_MS, "EUR", 2_000)
    assert executed.after.seq == 4
    assert executed.reply == Granted(
        (
            Grant("within_ceilings", OUTAGE, 1_000, 10_000),
            Grant("within_ceilings", OUTAGE, 2_000, 10_000),
        )
    )


def test_refused_exposure_in_an_outage_is_not_journaled() -> None:
    executed = execute_programme(grant_stand_ins(8, (ask(1, amount_minor=9_001),)), in_outage(), LATER_MS)
    assert executed.after is None
    assert executed.reply == Granted((Grant("max_amount_exceeded", OUTAGE, 1_000, 10_000),))


@pytest.mark.parametrize("amount_minor", [1_000, 9_000, 9_001])
@pytest.mark.parametrize("outage", [False, True])
def test_preview_is_the_next_grant_and_changes_nothing(amount_minor: int, outage: bool) -> None:
    before = in_outage() if outage else governed(stand_in=policy())
    asked = ask(1, amount_minor=amount_minor)
    preview = execute_programme(preview_stand_in(7, asked), before, LATER_MS)
    granted = execute_programme(grant_stand_ins(7, (asked,)), before, LATER_MS)
    assert (preview.after, preview.events) == (None, ())
    assert isinstance(preview.reply, Granted)
    assert isinstance(granted.reply, Granted)
    (shown,), (given,) = preview.reply.grants, granted.reply.grants
    assert (shown.rule, shown.used_minor, shown.limit_minor) == (
        given.rule,
        given.used_minor,
        given.limit_minor,
    )


def test_outage_ends_once() -> None:
    executed = execute_programme(end_outage(1, OUTAGE), in_outage(), LATER_MS)
    assert executed.after is not None
    assert (executed.after.outage, executed.after.seq) == (None, 4)
    assert events(executed) == [
        (
            "authorization.stip_outage.finished",
            {"programme_id": PROGRAMME, "ended_at": "2026-11-21T10:01:00.000Z"},
        )
    ]
    again = execute_programme(end_outage(2, OUTAGE), executed.after, LATER_MS)
    assert again == ProgrammeExecuted(
        Done(200, {"programme_id": PROGRAMME, "outage_id": OUTAGE, "ended": False})
    )


def test_change_reaches_hosts_if_decisions_depend_on_it() -> None:
    before = in_outage()
    assert concerns_hosts(None, before)
    assert concerns_hosts(before, msgspec.structs.replace(before, outage=None))
    assert concerns_hosts(before, msgspec.structs.replace(before, config=programme(name="Other")))
    assert not concerns_hosts(before, in_outage(used_minor=9_000))


def test_change_command_is_dispatched() -> None:
    executed = execute_programme(change_programme(1, name="Fuel"), governed(), LATER_MS)
    assert executed.after is not None
    assert executed.after.config.name == "Fuel"
