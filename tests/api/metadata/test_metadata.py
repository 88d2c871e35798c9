"""External references and metadata: create, change, merge, limits, interruptions, erasure."""

from __future__ import annotations

from typing import Any

import pytest

from api.http.problems import Refusal
from api.metadata import creation, store
from api.sweepers.metadata import sweep
from engine.limits import METADATA_KEYS_MAX, METADATA_RESERVED_SECONDS
from tests.support.api.driver import Caller
from tests.support.api.stack import Installation

ABOUT = {"external_ref": "ours-1", "metadata": {"cost_centre": "4711", "note": "line one\nline two"}}
PATHS = {
    "programme": "programs",
    "card_product": "card-products",
    "cardholder": "cardholders",
    "card": "cards",
}


async def made(acme: Caller, **about: Any) -> dict[str, Any]:
    """An object of each kind, created with ``about``."""
    programme = await acme.programme(**about)
    product, holder = await acme.product(programme, **about), await acme.cardholder(programme, **about)
    card = await acme.card(product, holder, **about)
    return {"programme": programme, "card_product": product, "cardholder": holder, "card": card}


def about_of(shown: dict[str, Any]) -> dict[str, Any]:
    return {name: shown[name] for name in ABOUT}


def without_secret(shown: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in shown.items() if name != "decision_secret"}


async def rows(running: Installation, object_id: str) -> int:
    statement = "SELECT count(*) FROM object_metadata WHERE object_id = $1::uuid"
    return int(await running.services.pool.fetchval(statement, object_id))


async def test_new_objects_show_what_they_were_created_with(acme: Caller) -> None:
    objects = await made(acme, **ABOUT)
    for kind, shown in objects.items():
        assert about_of(shown) == ABOUT, kind
        assert about_of(await acme.get(f"/v1/{PATHS[kind]}/{shown['id']}")) == ABOUT, kind
        assert about_of((await acme.get(f"/v1/{PATHS[kind]}"))["data"][0]) == ABOUT, kind


async def test_objects_without_records_show_none(acme: Caller) -> None:
    for shown in (await made(acme)).values():
        assert about_of(shown) == {"external_ref": None, "metadata": {}}


@pytest.mark.parametrize("kind", PATHS)
async def test_change_merges_pairs_and_null_removes_them(acme: Caller, kind: str) -> None:
    shown = (await made(acme, **ABOUT))[kind]
    path = f"/v1/{PATHS[kind]}/{shown['id']}"
    changed = await acme.patch(path, {"metadata": {"note": None, "team": "red"}})
    assert about_of(changed) == {"external_ref": "ours-1", "metadata": {"cost_centre": "4711", "team": "red"}}
    assert await acme.get(path) == changed
    emptied = await acme.patch(path, {"metadata": None, "external_ref": None})
    assert about_of(emptied) == {"external_ref": None, "metadata": {}}
    assert await acme.get(path) == emptied


@pytest.mark.parametrize("kind", PATHS)
async def test_limits_are_refused_and_change_nothing(acme: Caller, kind: str) -> None:
    shown = (await made(acme, metadata={f"k{n}": "" for n in range(METADATA_KEYS_MAX)}))[kind]
    path = f"/v1/{PATHS[kind]}/{shown['id']}"
    for broken in (
        {"one-more": "x"},
        {"k" * 41: "x"},
        {"k0": "x" * 501},
        {"": "x"},
        {"k0": "a\x01b"},
        {"k0": 7},
        {"k0": {"a": "b"}},
        ["k0"],
    ):
        problem = (await acme.send("PATCH", path, {"metadata": broken})).json()
        assert problem["type"] == "/problems/validation-failed", broken
        assert problem["errors"][0]["pointer"].startswith("/metadata")
    assert about_of(await acme.get(path)) == about_of(shown)
    # A pair that leaves makes room for another one.
    await acme.patch(path, {"metadata": {"k0": None, "one-more": "x"}})


async def test_longest_pairs_fit(acme: Caller) -> None:
    longest = {f"{n:040}": "é" * 500 for n in range(METADATA_KEYS_MAX)}
    programme = await acme.programme(metadata=longest)
    assert programme["metadata"] == longest


async def test_events_carry_the_records_of_products_and_cards(acme: Caller) -> None:
    objects = await made(acme, **ABOUT)
    card, product = objects["card"], objects["card_product"]
    await acme.patch(f"/v1/cards/{card['id']}", {"metadata": {"note": None}})
    await acme.patch(f"/v1/cards/{card['id']}", {"state": "suspended"})
    await acme.patch(f"/v1/cards/{card['id']}", {"state": "active", "external_ref": "ours-2"})
    await acme.patch(f"/v1/cards/{card['id']}", {"external_ref": "ours-2"})
    await acme.patch(f"/v1/card-products/{product['id']}", {"metadata": {"note": None}})
    await acme.patch(f"/v1/card-products/{product['id']}", {"metadata": {"note": None}})
    events = (await acme.get("/v1/events?types=card.created,card.updated"))["data"]
    told = [(each["type"], each["data"]["state"], about_of(each["data"])) for each in reversed(events)]
    shorter = {"cost_centre": "4711"}
    assert told == [
        ("card.created", "active", ABOUT),
        ("card.updated", "active", ABOUT | {"metadata": shorter}),
        ("card.updated", "suspended", ABOUT | {"metadata": shorter}),
        ("card.updated", "active", ABOUT | {"metadata": shorter}),
        ("card.updated", "active", {"external_ref": "ours-2", "metadata": shorter}),
    ]
    assert set(events[0]["data"]) == set(events[-1]["data"])
    [updated] = (await acme.get("/v1/events?types=card_product.updated"))["data"]
    assert updated["data"] == await acme.get(f"/v1/card-products/{product['id']}")


async def test_records_of_a_programme_are_not_part_of_its_version(acme: Caller) -> None:
    programme = await acme.programme()
    path = f"/v1/programs/{programme['id']}"
    assert (await acme.patch(path, {"metadata": {"a": "b"}}))["version"] == 1
    both = await acme.patch(path, {"external_ref": "x", "name": "Other"})
    assert (both["version"], both["name"], both["external_ref"]) == (2, "Other", "x")
    types = [each["type"] for each in (await acme.get("/v1/events"))["data"]]
    assert types == ["programme.updated", "programme.created"]


async def test_cardholder_events_name_metadata_and_never_contain_it(acme: Caller) -> None:
    holder = await acme.cardholder(await acme.programme(), **ABOUT)
    await acme.patch(f"/v1/cardholders/{holder['id']}", {"metadata": {"note": "private"}})
    event = (await acme.get("/v1/events?types=cardholder.updated"))["data"][0]
    assert event["data"]["changed"] == ["metadata"]
    assert "private" not in str(event)


async def test_refused_change_of_a_card_changes_no_metadata(acme: Caller) -> None:
    card = (await made(acme, **ABOUT))["card"]
    path = f"/v1/cards/{card['id']}"
    await acme.patch(path, {"state": "lost"})
    await acme.patch(path, {"state": "active", "metadata": {"a": "b"}}, 409)
    assert about_of(await acme.get(path)) == ABOUT
    assert (await acme.patch(path, {"metadata": {"found": "no"}}))["metadata"]["found"] == "no"


async def test_too_many_pairs_leave_the_state_as_it_is(acme: Caller) -> None:
    full = {f"k{n}": "" for n in range(METADATA_KEYS_MAX)}
    objects = await made(acme, metadata=full)
    for kind, change in (
        ("card", {"state": "suspended"}),
        ("cardholder", {"status": "blocked"}),
        ("programme", {"name": "Other"}),
    ):
        path = f"/v1/{PATHS[kind]}/{objects[kind]['id']}"
        await acme.patch(path, change | {"metadata": {"one-more": ""}}, 400)
        assert await acme.get(path) == without_secret(objects[kind])


async def test_repeated_change_has_one_effect_and_the_same_answer(acme: Caller) -> None:
    card = (await made(acme))["card"]
    path, change = f"/v1/cards/{card['id']}", {"state": "suspended", "metadata": {"a": "b"}}
    first = await acme.send("PATCH", path, change, key="once")
    again = await acme.send("PATCH", path, change, key="once")
    assert (first.content, again.headers["Idempotent-Replayed"]) == (again.content, "true")
    assert len((await acme.get("/v1/events?types=card.updated"))["data"]) == 2


async def test_key_of_another_change_is_refused_and_changes_nothing(acme: Caller) -> None:
    card = (await made(acme))["card"]
    path = f"/v1/cards/{card['id']}"
    await acme.patch(path, {"state": "suspended", "metadata": {"a": "b"}}, key="once")
    reused = await acme.patch(path, {"state": "active", "metadata": {"c": "d"}}, 409, key="once")
    assert reused["type"] == "/problems/idempotency-key-reused"
    shown = await acme.get(path)
    assert (shown["state"], shown["metadata"]) == ("suspended", {"a": "b"})


async def test_change_that_ended_between_its_steps_is_completed_by_a_repetition(
    running: Installation, acme: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    card = (await made(acme))["card"]
    path, change = f"/v1/cards/{card['id']}", {"state": "suspended", "metadata": {"a": "b"}}

    async def interrupted(*_: Any) -> None:
        raise Refusal("dependency-unavailable")

    with monkeypatch.context() as broken:
        broken.setattr("api.cards.routes.change", interrupted)
        assert (await acme.send("PATCH", path, change, key="once")).status_code == 500
    between = await acme.get(path)
    assert (between["state"], between["metadata"]) == ("suspended", {})
    completed = (await acme.send("PATCH", path, change, key="once")).json()
    assert (completed["state"], completed["metadata"]) == ("suspended", {"a": "b"})
    assert len((await acme.get("/v1/events?types=card.updated"))["data"]) == 2
    assert await rows(running, card["id"]) == 1


@pytest.mark.parametrize("path", ["/v1/programs", "/v1/cards"])
async def test_interrupted_creation_leaves_no_visible_row(
    running: Installation, acme: Caller, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    """The API server ends after it has stored the row and before the owner has created the object."""
    objects = await made(acme)
    body = {"name": "P", "currency": "EUR"}
    if path == "/v1/cards":
        body = {
            "card_product_id": objects["card_product"]["id"],
            "cardholder_id": objects["cardholder"]["id"],
        }
    pool, before = running.services.pool, await acme.get(path)
    stored: list[str] = []

    async def ended(*given: Any) -> None:
        stored.append(given[3])
        await original(*given)

    async def never(*_: Any) -> None:
        raise Refusal("dependency-unavailable")

    original = store.insert
    with monkeypatch.context() as broken:
        broken.setattr(creation, "insert", ended)
        broken.setattr("api.cards.issue.submit", never)
        broken.setattr("api.programmes.routes.submit", never)
        await acme.post(path, body | ABOUT, 500)
    assert await acme.get(path) == before
    assert await rows(running, stored[0]) == 1
    await sweep(running.services)
    assert await rows(running, stored[0]) == 1, "the command may still be on its way"
    age = f"interval '{METADATA_RESERVED_SECONDS + 1} seconds'"
    await pool.execute(f"UPDATE object_metadata SET reserved_at = reserved_at - {age}")
    await sweep(running.services)
    assert await rows(running, stored[0]) == 0


async def test_created_objects_are_confirmed(running: Installation, acme: Caller) -> None:
    objects = await made(acme, **ABOUT)
    statement = "SELECT count(*) FROM object_metadata WHERE reserved_at IS NOT NULL AND object_id = $1::uuid"
    for kind in ("programme", "card"):
        assert await running.services.pool.fetchval(statement, objects[kind]["id"]) == 0


async def test_refused_and_repeated_creations_leave_no_row(running: Installation, acme: Caller) -> None:
    objects = await made(acme)
    body = {"card_product_id": objects["card_product"]["id"], "cardholder_id": objects["cardholder"]["id"]}
    count = "SELECT count(*) FROM object_metadata o JOIN tenants t ON t.id = o.tenant_id WHERE t.name = $1"
    first = await acme.post("/v1/cards", body | ABOUT, key="once")
    again = await acme.post("/v1/cards", body | ABOUT, key="once")
    assert again == first
    assert await running.services.pool.fetchval(count, acme.credentials.name) == 1


async def test_erased_cardholder_has_no_metadata(running: Installation, acme: Caller) -> None:
    holder = await acme.cardholder(await acme.programme(), **ABOUT)
    assert (await acme.send("DELETE", f"/v1/cardholders/{holder['id']}")).status_code == 204
    assert (await acme.get(f"/v1/cardholders/{holder['id']}"))["metadata"] == {}
    assert await rows(running, holder["id"]) == 0
    await acme.patch(f"/v1/cardholders/{holder['id']}", {"metadata": {"a": "b"}}, 409)
    assert await rows(running, holder["id"]) == 0


async def test_metadata_of_a_transaction(running: Installation, acme: Caller) -> None:
    card = await acme.funded_card("10.00")
    spend = await acme.spend(card, "1.00")
    path = f"/v1/transactions/{spend['transaction_id']}"
    before = await acme.get(path)
    changed = await acme.patch(path, {"metadata": {"invoice": "7"}})
    assert changed == before | {"metadata": {"invoice": "7"}} == await acme.get(path)
    assert (await acme.get("/v1/transactions"))["data"] == [changed]
    await acme.patch(path, {}, 400)
    await acme.patch(path, {"metadata": {"invoice": None}})
    assert await rows(running, spend["transaction_id"]) == 0
