"""Changing a cardholder: members, published events, and a status that is in force once acknowledged."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from api.cards.card_numbers import reserve
from api.sweepers.cardholders import sweep
from engine.commands import Command, SetCardholderStatus
from engine.replies import Done, NotExecuted, Reply
from tests.support.api.driver import Caller
from tests.support.api.stack import Installation


async def change(caller: Caller, holder: Any, ends: int = 200, **members: Any) -> Any:
    return await caller.patch(f"/v1/cardholders/{holder['id']}", members, ends)


async def told(caller: Caller) -> list[Any]:
    return [event["data"] for event in (await caller.get("/v1/events?types=cardholder.updated"))["data"]]


async def test_changed_members_are_replaced_and_published_once(acme: Caller) -> None:
    holder = await acme.cardholder(await acme.programme(), phone="+353861234567")
    address = {"line1": "1 Main St", "line2": None, "city": "Cork", "postcode": "T12", "country": "IE"}
    parts: dict[str, Any] = {
        "given_name": "Augusta",
        "email": "augusta@example.com",
        "date_of_birth": "1990-05-17",
    }
    changed = await change(acme, holder, **parts, address=address, phone=None)
    assert changed == holder | parts | {
        "address": address,
        "phone": None,
        "updated_at": changed["updated_at"],
    }
    assert changed["updated_at"] > holder["updated_at"]
    assert await acme.get(f"/v1/cardholders/{holder['id']}") == changed
    assert await told(acme) == [
        {
            "cardholder_id": holder["id"],
            "programme_id": holder["programme_id"],
            "status": "active",
            "kyc_state": None,
            "occurred_at": changed["updated_at"],
            "changed": ["given_name", "email", "phone", "date_of_birth", "address"],
        }
    ]
    assert await change(acme, holder, **parts) == changed
    assert len(await told(acme)) == 1


@pytest.mark.parametrize(
    ("members", "pointer"),
    [
        ({}, ""),
        ({"given_name": None}, "/given_name"),
        ({"email": "nobody"}, "/email"),
        ({"status": "asleep"}, "/status"),
        ({"status": None}, "/status"),
        ({"programme_id": "019aa6f0-4f2c-7cc1-9a31-5b0f6f3f2a7e"}, "/programme_id"),
        ({"kyc_state": "passed"}, "/kyc_state"),
    ],
)
async def test_invalid_change_is_refused_with_its_pointer(
    acme: Caller, members: dict[str, Any], pointer: str
) -> None:
    holder = await acme.cardholder(await acme.programme())
    problem = await change(acme, holder, 400, **members)
    assert problem["errors"][0]["pointer"] == pointer


@pytest.mark.parametrize("status", ["blocked", "closed"])
async def test_blocked_or_closed_cardholder_declines_on_every_card(acme: Caller, status: str) -> None:
    programme = await acme.programme()
    product, holder = await acme.product(programme), await acme.cardholder(programme)
    cards = [await acme.card(product, holder) for _ in range(3)]
    for card in cards:
        await acme.load(card, "10.00")
    held = await acme.spend(cards[0], "2.00")
    assert (await change(acme, holder, status=status))["status"] == status
    for card in cards:
        spend = await acme.spend(card, "1.00")
        assert (spend["decline_reason"], spend["response_code"]) == ("cardholder_blocked", "57")
    refused = await acme.post(
        "/v1/cards", {"card_product_id": product["id"], "cardholder_id": holder["id"]}, 409
    )
    assert refused["type"] == "/problems/cardholder-not-active"
    # Clearings and reversals of earlier approvals do not depend on the status.
    cleared = await acme.post(f"/v1/simulated-spends/{held['simulation_id']}/clear", None, 202)
    assert (await acme.simulation(cleared["simulation_id"]))["decision"] == "approved"


async def test_reactivated_cardholder_spends_again(acme: Caller) -> None:
    card = await acme.funded_card()
    holder = {"id": card["cardholder_id"]}
    for status in ("blocked", "blocked", "active"):
        await change(acme, holder, status=status)
    assert (await acme.spend(card, "1.00"))["decision"] == "approved"
    assert [data["status"] for data in await told(acme)] == ["active", "blocked"]


async def test_closed_cardholder_cannot_change_status(acme: Caller) -> None:
    holder = await acme.cardholder(await acme.programme())
    await change(acme, holder, status="closed")
    for status in ("active", "blocked"):
        refused = await change(acme, holder, 409, status=status)
        assert refused["type"] == "/problems/invalid-state-transition"
    assert (await change(acme, holder, status="closed"))["status"] == "closed"


async def test_card_issued_while_its_cardholder_is_blocked_declines(acme: Caller) -> None:
    """In either order of the two requests, no card of a blocked cardholder approves."""
    programme = await acme.programme()
    product = await acme.product(programme)
    for _ in range(8):
        holder = await acme.cardholder(programme)
        body = {"card_product_id": product["id"], "cardholder_id": holder["id"]}
        issued, blocked = await asyncio.gather(
            acme.send("POST", "/v1/cards", body), change(acme, holder, status="blocked")
        )
        assert blocked["status"] == "blocked"
        assert issued.status_code in {201, 409}
        if issued.status_code == 201:
            await acme.load(issued.json(), "5.00")
            assert (await acme.spend(issued.json(), "1.00"))["decline_reason"] == "cardholder_blocked"


async def test_status_change_is_acknowledged_only_when_in_force(
    running: Installation, acme: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    card = await acme.funded_card()
    holder = {"id": card["cardholder_id"]}

    async def unreachable(command: Command, **_options: Any) -> Reply:
        return NotExecuted("unavailable")

    with monkeypatch.context() as patched:
        patched.setattr(running.services.owners, "submit", unreachable)
        refused = await acme.patch(f"/v1/cardholders/{holder['id']}", {"status": "blocked"}, 500, key="again")
        assert refused["type"] == "/problems/dependency-unavailable"
    assert (await acme.get(f"/v1/cardholders/{holder['id']}"))["status"] == "active"
    again = await acme.patch(f"/v1/cardholders/{holder['id']}", {"status": "blocked"}, key="again")
    assert again["status"] == "blocked"
    assert (await acme.spend(card, "1.00"))["decline_reason"] == "cardholder_blocked"
    replayed = await acme.send("PATCH", f"/v1/cardholders/{holder['id']}", {"status": "blocked"}, key="again")
    assert replayed.json() == again
    assert replayed.headers["Idempotent-Replayed"] == "true"


class OwnersAway:
    """The installation's owners with lost status commands: those for the cards in ``away``, and all after the
    first ``calls``, return ``NotExecuted``. With ``after``, they are executed and only the reply is lost.
    """

    def __init__(self, running: Installation, *, calls: int = 10**9, after: bool = False) -> None:
        self._submit = running.services.owners.submit
        self.calls = calls
        self.after = after
        self.away: set[str] = set()

    async def submit(self, command: Command, **options: Any) -> Reply:
        if isinstance(command, SetCardholderStatus):
            self.calls -= 1
            if self.calls < 0 or command.card_id in self.away:
                if self.after:
                    await self._submit(command, **options)
                return NotExecuted("unavailable")
        return await self._submit(command, **options)


@asynccontextmanager
async def owners_away(running: Installation, **how: Any) -> AsyncIterator[OwnersAway]:
    away = OwnersAway(running, **how)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(running.services.owners, "submit", away.submit)
        yield away


async def three_cards(caller: Caller) -> tuple[Any, list[Any]]:
    programme = await caller.programme()
    product, holder = await caller.product(programme), await caller.cardholder(programme)
    cards = [await caller.card(product, holder) for _ in range(3)]
    for card in cards:
        await caller.load(card, "50.00")
    return holder, cards


async def shown(caller: Caller, holder: Any) -> str:
    return str((await caller.get(f"/v1/cardholders/{holder['id']}"))["status"])


async def approving(caller: Caller, cards: list[Any]) -> int:
    spends = [await caller.spend(card, "1.00") for card in cards]
    assert {spend["decline_reason"] for spend in spends} <= {None, "cardholder_blocked"}
    return sum(spend["decision"] == "approved" for spend in spends)


async def swept(running: Installation) -> None:
    """Run one sweep with the clock a minute ahead."""
    clock = running.services.clock
    later = replace(running.services, clock=Later(clock))
    assert await sweep(later) >= 1


class Later:
    """A clock that is a minute ahead."""

    def __init__(self, clock: Any) -> None:
        self._clock = clock

    def now_ms(self) -> int:
        return int(self._clock.now_ms()) + 60_000

    def monotonic(self) -> float:
        return float(self._clock.monotonic())


@pytest.mark.parametrize("executed", [False, True], ids=["lost", "reply lost"])
@pytest.mark.parametrize("calls", range(3))
async def test_interrupted_activation_never_shows_blocked_while_a_card_approves(
    running: Installation, acme: Caller, calls: int, executed: bool
) -> None:
    holder, cards = await three_cards(acme)
    await change(acme, holder, status="blocked")
    async with owners_away(running, calls=calls, after=executed):
        await change(acme, holder, 500, status="active")
    assert await shown(acme, holder) == "active"
    await swept(running)
    assert (await shown(acme, holder), await approving(acme, cards)) == ("active", 3)
    assert [data["status"] for data in await told(acme)] == ["active", "blocked"]


@pytest.mark.parametrize("executed", [False, True], ids=["lost", "reply lost"])
@pytest.mark.parametrize("calls", range(3))
async def test_interrupted_blocking_is_shown_only_when_every_card_declines(
    running: Installation, acme: Caller, calls: int, executed: bool
) -> None:
    holder, cards = await three_cards(acme)
    async with owners_away(running, calls=calls, after=executed):
        await change(acme, holder, 500, status="blocked")
    assert await shown(acme, holder) == "active"
    assert await told(acme) == []
    await swept(running)
    assert (await shown(acme, holder), await approving(acme, cards)) == ("blocked", 0)
    assert [data["status"] for data in await told(acme)] == ["blocked"]


@pytest.mark.parametrize("first", ["active", "blocked"])
async def test_opposite_change_finishes_the_interrupted_one_first(
    running: Installation, acme: Caller, first: str
) -> None:
    holder, cards = await three_cards(acme)
    second = "blocked" if first == "active" else "active"
    if first == "active":
        await change(acme, holder, status="blocked")
    async with owners_away(running) as away:
        away.away = {cards[1]["id"]}
        await change(acme, holder, 500, status=first)
        await change(acme, holder, 500, status=second)
    assert (await change(acme, holder, status=second))["status"] == second
    assert await approving(acme, cards) == (3 if second == "active" else 0)


async def test_late_copy_of_an_earlier_activation_changes_no_card(
    running: Installation, acme: Caller
) -> None:
    holder, cards = await three_cards(acme)
    await change(acme, holder, status="blocked")
    sent: list[Command] = []
    submit = running.services.owners.submit

    async def kept(command: Command, **options: Any) -> Reply:
        sent.append(command)
        return await submit(command, **options)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(running.services.owners, "submit", kept)
        await change(acme, holder, status="active")
    await change(acme, holder, status="blocked")
    assert len(sent) == len(cards)
    for command in sent:
        assert isinstance(await submit(command), Done)
    assert await approving(acme, cards) == 0


async def test_parallel_changes_leave_cards_and_row_consistent(running: Installation, acme: Caller) -> None:
    holder, cards = await three_cards(acme)
    for _ in range(5):
        await asyncio.gather(
            *(
                acme.send("PATCH", f"/v1/cardholders/{holder['id']}", {"status": status})
                for status in ("blocked", "active", "blocked", "active")
            )
        )
        expected = 3 if await shown(acme, holder) == "active" else 0
        assert await approving(acme, cards) == expected
        await change(acme, holder, status="active")


@pytest.mark.parametrize("finished_by", ["retry", "sweeper"])
async def test_retry_or_sweep_releases_a_card_whose_creation_was_interrupted(
    running: Installation, acme: Caller, finished_by: str
) -> None:
    programme = await acme.programme()
    product, holder = await acme.product(programme), await acme.cardholder(programme)
    body = {"card_product_id": product["id"], "cardholder_id": holder["id"]}
    async with owners_away(running, calls=0):
        await acme.post("/v1/cards", body, 500, key="issue")
    (card,) = (await acme.get("/v1/cards"))["data"]
    await acme.load(card, "5.00")
    assert await approving(acme, [card]) == 0
    if finished_by == "sweeper":
        await swept(running)
    else:
        again = await acme.send("POST", "/v1/cards", body, key="issue")
        assert (again.status_code, again.headers["Idempotent-Replayed"]) == (201, "true")
        assert again.json() == card
    assert await approving(acme, [card]) == 1


async def test_card_whose_creation_was_interrupted_declines_once_its_cardholder_is_blocked(
    running: Installation, acme: Caller
) -> None:
    programme = await acme.programme()
    product, holder = await acme.product(programme), await acme.cardholder(programme)
    body = {"card_product_id": product["id"], "cardholder_id": holder["id"]}
    async with owners_away(running, calls=0, after=True):
        await acme.post("/v1/cards", body, 500, key="issue")
    await change(acme, holder, status="blocked")
    assert (await acme.post("/v1/cards", body, key="issue"))["state"] == "active"
    cards = (await acme.get("/v1/cards"))["data"]
    await acme.load(cards[0], "5.00")
    assert await approving(acme, cards) == 0
    await change(acme, holder, status="active")
    assert await approving(acme, cards) == 1


async def test_sweep_releases_the_pan_of_a_card_that_was_never_created(
    running: Installation, acme: Caller
) -> None:
    holder = await acme.cardholder(await acme.programme())
    card_id = running.services.new_id()
    await reserve(running.services, card_id, "400000", holder["id"])
    await swept(running)
    for table in ("pans", "card_issues"):
        found = f"SELECT count(*) FROM {table} WHERE card_id = $1::uuid"
        assert await running.services.pool.fetchval(found, card_id) == 0
