"""Stand-in policies over the API: replacement, validation, idempotency and programme events."""

from __future__ import annotations

import json
import re
import typing
from pathlib import Path
from typing import Any

import pytest

from actors.ids import new_id
from engine.limits import MCC_LIST_MAX, STAND_IN_COUNT_MAX
from engine.programmes.stand_in import APPROVING, Rule, response_code
from tests.support.api.delegation import money, policy, put_policy
from tests.support.api.driver import Caller
from tests.support.api.stack import Installation

WHOLE: dict[str, Any] = {
    "mode": "approve_within_limits",
    "triggers": {"connection_error": True, "timeout": False, "invalid_response": True},
    "max_amount": "50.00",
    "max_total_exposure": money("1000.00", "USD"),
    "max_count_per_day": 3,
    "mcc_list": ["7995", "6051"],
    "mcc_list_mode": "deny",
}
ALL_TRIGGERS = {"connection_error": True, "timeout": True, "invalid_response": True}
DEFAULT: dict[str, Any] = {
    "mode": "disabled",
    "triggers": ALL_TRIGGERS,
    "max_amount": None,
    "max_total_exposure": None,
    "max_count_per_day": None,
    "mcc_list": [],
    "mcc_list_mode": "deny",
}


async def stip_events(caller: Caller) -> list[Any]:
    page = await caller.get("/v1/events?types=programme.stip_policy.updated")
    return [event["data"] for event in reversed(page["data"])]


async def test_put_replaces_the_whole_policy(acme: Caller) -> None:
    programme = await acme.programme()
    path = f"/v1/programs/{programme['id']}/stip-policy"
    about = {"programme_id": programme["id"], "version": 1, "updated_at": programme["created_at"]}
    assert await acme.get(path) == about | DEFAULT
    first = await put_policy(acme, programme["id"], WHOLE)
    assert first == WHOLE | {
        "programme_id": programme["id"],
        "version": 2,
        "updated_at": first["updated_at"],
    }
    assert await acme.get(path) == first
    second = await put_policy(acme, programme["id"], {"max_amount": "1.5"})
    assert second | {"updated_at": ""} == DEFAULT | {
        "programme_id": programme["id"],
        "max_amount": "1.50",
        "version": 3,
        "updated_at": "",
    }
    assert await acme.get(path) == second
    assert [(told["version"], told["changed"]) for told in await stip_events(acme)] == [
        (2, ["max_amount", "max_count_per_day", "max_total_exposure", "mcc_list", "mode", "triggers"]),
        (3, ["max_amount", "max_count_per_day", "max_total_exposure", "mcc_list", "mode", "triggers"]),
    ]
    assert (await acme.get(f"/v1/programs/{programme['id']}"))["version"] == 3


async def test_equal_policy_publishes_no_event(acme: Caller) -> None:
    programme = await acme.programme()
    first = await put_policy(acme, programme["id"], WHOLE)
    twice = WHOLE | {"mcc_list": ["7995", "6051", "7995"], "max_amount": "50"}
    assert await put_policy(acme, programme["id"], twice) == first
    assert len(await stip_events(acme)) == 1
    assert (await acme.get(f"/v1/programs/{programme['id']}"))["version"] == 2


async def test_repeated_put_does_not_overwrite_a_newer_policy(acme: Caller) -> None:
    programme = await acme.programme()
    first = await put_policy(acme, programme["id"], WHOLE, key="one")
    newer = await put_policy(acme, programme["id"], policy(), key="two")
    again = await acme.send("PUT", f"/v1/programs/{programme['id']}/stip-policy", WHOLE, key="one")
    assert (again.json(), again.headers["Idempotent-Replayed"]) == (first, "true")
    assert await acme.get(f"/v1/programs/{programme['id']}/stip-policy") == newer
    reused = await put_policy(acme, programme["id"], policy(), 409, key="one")
    assert reused["type"] == "/problems/idempotency-key-reused"
    missing = await put_policy(acme, programme["id"], WHOLE, 400, key=None)
    assert missing["type"] == "/problems/idempotency-key-missing"


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        (WHOLE | {"mode": "approve"}, "/mode"),
        (WHOLE | {"mode": None}, "/mode"),
        (WHOLE | {"triggers": {"timeout": "yes"}}, "/triggers/timeout"),
        (WHOLE | {"triggers": {"slow": True}}, "/triggers/slow"),
        (WHOLE | {"triggers": []}, "/triggers"),
        (WHOLE | {"max_amount": "-1"}, "/max_amount"),
        (WHOLE | {"max_amount": "1.005"}, "/max_amount"),
        (WHOLE | {"max_amount": 1}, "/max_amount"),
        (WHOLE | {"max_amount": money("1.00")}, "/max_amount"),
        (WHOLE | {"max_total_exposure": "1000.00"}, "/max_total_exposure"),
        (WHOLE | {"max_total_exposure": money("1000.00", "JPY")}, "/max_total_exposure/currency"),
        (WHOLE | {"max_total_exposure": {"amount": "1.00"}}, "/max_total_exposure/currency"),
        (WHOLE | {"max_count_per_day": -1}, "/max_count_per_day"),
        (WHOLE | {"max_count_per_day": STAND_IN_COUNT_MAX + 1}, "/max_count_per_day"),
        (WHOLE | {"max_count_per_day": 1.5}, "/max_count_per_day"),
        (WHOLE | {"mcc_list": ["795"]}, "/mcc_list/0"),
        (WHOLE | {"mcc_list": ["7995", "٧٩٩٥"]}, "/mcc_list/1"),
        (WHOLE | {"mcc_list": [7995]}, "/mcc_list/0"),
        (WHOLE | {"mcc_list": [f"{number:04d}" for number in range(MCC_LIST_MAX + 1)]}, "/mcc_list"),
        (WHOLE | {"mcc_list_mode": "permit"}, "/mcc_list_mode"),
        (WHOLE | {"version": 2}, "/version"),
        ([], ""),
    ],
)
async def test_invalid_policy_is_refused(acme: Caller, body: Any, pointer: str) -> None:
    programme = await acme.programme()
    refused = await put_policy(acme, programme["id"], body, 400)
    assert refused["type"] == "/problems/validation-failed"
    assert [error["pointer"] for error in refused["errors"]] == [pointer]
    assert (await acme.get(f"/v1/programs/{programme['id']}/stip-policy"))["version"] == 1


async def test_largest_policy_is_stored(acme: Caller) -> None:
    largest = WHOLE | {
        "max_amount": "9999999999999999.99",
        "max_total_exposure": money("9999999999999999.99"),
        "max_count_per_day": STAND_IN_COUNT_MAX,
        "mcc_list": [f"{number:04d}" for number in range(MCC_LIST_MAX)],
    }
    programme = await acme.programme()
    kept = await put_policy(acme, programme["id"], largest)
    assert {name: kept[name] for name in largest} == largest


async def test_closed_programme_refuses_a_new_policy(acme: Caller) -> None:
    programme = await acme.programme()
    await acme.patch(f"/v1/programs/{programme['id']}", {"status": "closed"})
    refused = await put_policy(acme, programme["id"], WHOLE, 409)
    assert refused["type"] == "/problems/invalid-state-transition"
    assert (await acme.get(f"/v1/programs/{programme['id']}/stip-policy"))["mode"] == "disabled"


async def test_policy_of_another_tenant_is_not_found(
    running: Installation, acme: Caller, tenant: str
) -> None:
    programme = await acme.programme()
    rival, live = await running.caller(f"{tenant}-rival"), await running.caller(tenant, mode="live")
    for caller, id_ in ((rival, programme["id"]), (live, programme["id"]), (acme, new_id()), (acme, "x")):
        assert (await put_policy(caller, id_, WHOLE, 404))["type"] == "/problems/not-found"
        await caller.get(f"/v1/programs/{id_}/stip-policy", 404)
        # The body is validated before the programme is looked up.
        await put_policy(caller, id_, {"mode": "x"}, 400)
    user = await running.caller(tenant, role="user")
    assert (await put_policy(user, programme["id"], WHOLE))["version"] == 2


PAGE = (Path(__file__).parents[3] / "ops" / "docs" / "STAND_IN.md").read_text()


async def test_example_in_the_guide_is_a_valid_policy(acme: Caller) -> None:
    [shown] = [block for block in re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL) if '"mcc_list"' in block]
    policy_ = json.loads(shown)
    kept = await put_policy(acme, (await acme.programme())["id"], policy_)
    assert {name: kept[name] for name in policy_} == policy_


def test_guide_lists_every_rule_in_order() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (approved|[0-9]{2}) \|$", PAGE, re.MULTILINE)
    rules = [rule for rule in typing.get_args(Rule) if rule != "not_triggered"]
    assert rows == [(rule, "approved" if rule == APPROVING else response_code(rule)) for rule in rules]
