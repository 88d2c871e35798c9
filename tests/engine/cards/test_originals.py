"""The original of a follow-up where several authorizations share a network transaction id."""

from __future__ import annotations

import pytest

from engine.cards.authorization import Authorization, gateway_open_minor
from engine.commands import (
    reference_of_id,
    reference_of_message,
    reference_of_network,
)
from tests.engine.build import (
    key,
)
from tests.engine.desk import SALE, Desk
from tests.engine.gateway_desk import desk_in

# A sale of 10.00 that is over, an increment of 5.00 after that, and what is said of the sale: by the name of
# its message beside the network id, by its own id, or by the network id alone. Then what was cleared and is
# held of each of the two.
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
    "captured, then presented by id": (("present", 1_000), "id", ("present", 400), [(1_400, 0), (0, 500)]),
    "captured, then reversed by id": (("present", 1_000), "id", ("lower", 0), [(1_000, 0), (0, 500)]),
    "reversed, then reversed by message": (("lower", 0), "message", ("lower", 0), [(0, 0), (0, 500)]),
    "captured, then presented by life": (
        ("present", 1_000),
        "life",
        ("present", 400),
        [(1_000, 0), (400, 0)],
    ),
    "captured, then reversed by life": (("present", 1_000), "life", ("lower", 0), [(1_000, 0), (0, 0)]),
    "reversed, then presented by life": (("lower", 0), "life", ("present", 500), [(0, 0), (500, 0)]),
    "captured, then advised by life": (("present", 1_000), "life", ("advise", 300), [(1_000, 0), (0, 300)]),
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
    names = {"message": order, "id": (reference_of_id(sale.id),), "life": (life,)}[by]
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
