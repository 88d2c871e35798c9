"""The original of a follow-up where several authorizations share a network transaction id."""

from __future__ import annotations

from typing import Final

import pytest

from engine.cards.authorization import Authorization, gateway_open_minor
from engine.commands import (
    reference_of_id,
    reference_of_message,
    reference_of_network,
)
from tests.support.engine.build import (
    key,
)
from tests.support.engine.desk import SALE, Desk
from tests.support.engine.gateway_desk import desk_in

# A sale of 10.00 is closed, and an increment of 5.00 opens a second authorization. Then a message about the
# sale names its message beside the network id, its own id, or the network id alone. Last, the cleared and the
# held amount of each of the two.
NETWORK_ID: Final = "network id"
AFTER_THE_END: dict[str, tuple[tuple[str, int], str, tuple[str, int], list[tuple[int, int]]]] = {
    "captured, then presented by message": (
        ("present", 1_000),
        "message",
        ("present", 400),
        [(1_400, 0), (0, 500)],
    ),
    "captured in part, then presented by message": (
        ("present", 600),
        "message",
        ("present", 400),
        [(1_000, 0), (0, 500)],
    ),
    "reversed, then presented by message": (("lower", 0), "message", ("present", 400), [(400, 0), (0, 500)]),
    "captured, then advised by message": (
        ("present", 1_000),
        "message",
        ("advise", 1_000),
        [(1_000, 0), (0, 500)],
    ),
    "captured, then reversed by message": (
        ("present", 1_000),
        "message",
        ("lower", 0),
        [(1_000, 0), (0, 500)],
    ),
    "captured, then presented by own id": (
        ("present", 1_000),
        "id",
        ("present", 400),
        [(1_400, 0), (0, 500)],
    ),
    "captured, then reversed by own id": (("present", 1_000), "id", ("lower", 0), [(1_000, 0), (0, 500)]),
    "reversed, then reversed by message": (("lower", 0), "message", ("lower", 0), [(0, 0), (0, 500)]),
    "captured, then presented by network id": (
        ("present", 1_000),
        NETWORK_ID,
        ("present", 400),
        [(1_000, 0), (400, 0)],
    ),
    "captured, then reversed by network id": (
        ("present", 1_000),
        NETWORK_ID,
        ("lower", 0),
        [(1_000, 0), (0, 0)],
    ),
    "reversed, then presented by network id": (
        ("lower", 0),
        NETWORK_ID,
        ("present", 500),
        [(0, 0), (500, 0)],
    ),
    "captured, then advised by network id": (
        ("present", 1_000),
        NETWORK_ID,
        ("advise", 300),
        [(1_000, 0), (0, 300)],
    ),
}


@pytest.mark.parametrize("gateway", [False, True], ids=["managed", "gateway"])
@pytest.mark.parametrize("name", AFTER_THE_END)
def test_follow_up_finds_its_sale_beside_a_later_increment(name: str, gateway: bool) -> None:
    (ending, amount_minor), by, (verb, said_minor), figures = AFTER_THE_END[name]
    desk = desk_in(gateway)
    desk.authorize(1_000)
    getattr(desk, ending)(amount_minor)
    desk.increment(500)
    sale, increment = sorted(desk.known, key=lambda each: each.requested_minor, reverse=True)
    life, message = reference_of_network(SALE), reference_of_message(sale.command_key)
    order = (message, life) if verb == "lower" else (life, message)
    names = {"message": order, "id": (reference_of_id(sale.id),), NETWORK_ID: (life,)}[by]
    if verb == "lower":
        desk.reverse(references=names, remaining_minor=said_minor)
    else:
        getattr(desk, verb)(said_minor, references=names)
    assert [(each.cleared_minor, held_for(each, desk)) for each in (sale, increment)] == figures


def held_for(authorization: Authorization, desk: Desk) -> int:
    hold = desk.account.holds.get(authorization.hold_id or "")
    return hold.amount_minor if hold is not None else gateway_open_minor(authorization)


def test_presentment_that_names_a_declined_attempt_finds_the_approved_one() -> None:
    desk = Desk()
    desk.authorize(50_000)
    desk.authorize(1_000)
    desk.present(1_000, references=(reference_of_network(SALE), reference_of_message(key(1))))
    assert desk.balance == (9_000, 0)
    assert desk.sale().cleared_minor == 1_000
