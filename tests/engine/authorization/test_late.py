"""An edge's reversal, a late authorization, the network's advice and reversal, in every order and both
modes."""

from __future__ import annotations

from itertools import chain, combinations, permutations
from typing import Any

import msgspec
import pytest

from engine.authorization.effects import AuthorizationOpened, HoldPlaced
from engine.cards.authorization import gateway_open_minor
from engine.commands import (
    Advise,
    Authorize,
    CardCommand,
    Reverse,
    reference_of_message,
    reference_of_network,
)
from engine.ids import Derived, derive
from engine.iso8583.identity import late_reversal_key
from tests.support.engine.build import an_id, authorize, card, key, wire
from tests.support.engine.desk import SALE, Desk
from tests.support.engine.gateway_desk import GatewayDesk, valid

MESSAGE = reference_of_message(key(7))
LIFE = reference_of_network(SALE)
_SHOP = {"currency": "EUR", "mcc": "5411", "merchant_name": "Shop", "merchant_country": "IE"}


def sale(**parts: Any) -> Authorize:
    return authorize(7, **({"amount_minor": 1_000, "wire": wire(7, network_txn_id=SALE)} | parts))


def _about(make: Any, number: int, **parts: Any) -> Any:
    facts = {"references": (LIFE, MESSAGE), "command_key": key(number), "fingerprint": key(number)} | parts
    return make(
        id=an_id(0x50_0000 + number), card_id=sale().card_id, wire=wire(number, network_txn_id=SALE), **facts
    )


def edge_reverses() -> Reverse:
    undo = late_reversal_key(sale().command_key)
    reversal: Reverse = _about(
        Reverse, 80, references=(MESSAGE,), command_key=undo, fingerprint=undo, late=True
    )
    return msgspec.structs.replace(reversal, id=derive(sale().id, Derived.LATE_REVERSAL))


def network_reverses(**parts: Any) -> Reverse:
    reversal: Reverse = _about(Reverse, 81, **({"references": (MESSAGE, LIFE)} | parts))
    return reversal


def network_approves(amount_minor: int = 1_000, number: int = 82, **parts: Any) -> Advise:
    advice: Advise = _about(
        Advise, number, amount_minor=amount_minor, channel="pos", **_SHOP, **({"stand_in": True} | parts)
    )
    return advice


STEPS: dict[str, Any] = {
    "authorized": sale,
    "undone": edge_reverses,
    "advised": network_approves,
    "reversed": network_reverses,
}


def a_desk(gateway: bool) -> Desk:
    return GatewayDesk(card=card(account_id=None)) if gateway else Desk()


def held(desk: Desk) -> int:
    """The held amount; in gateway mode, the open amount."""
    if isinstance(desk, GatewayDesk):
        return sum(gateway_open_minor(each) for each in desk.known)
    assert desk.account.held_minor == sum(hold.amount_minor for hold in desk.account.holds.values())
    return desk.account.held_minor


def counted(desk: Desk) -> tuple[int, int]:
    return desk.card.day_amount_minor, desk.card.day_count


def orders(*others: str) -> list[tuple[str, ...]]:
    """Every order of the advice and of each subset of ``others``."""
    parts = chain.from_iterable(combinations(others, size) for size in range(len(others) + 1))
    return [order for part in parts for order in permutations(("advised", *part))]


@pytest.mark.parametrize("gateway", [False, True], ids=["managed", "gateway"])
@pytest.mark.parametrize("stand_in", [True, False], ids=["stand-in", "ordinary"])
@pytest.mark.parametrize("amount_minor", [700, 1_000, 1_300])
@pytest.mark.parametrize("order", orders("authorized", "undone"), ids=", ".join)
def test_advised_amount_is_held_in_any_order_with_an_edge_reversal(
    order: tuple[str, ...], amount_minor: int, stand_in: bool, gateway: bool
) -> None:
    desk = a_desk(gateway)
    for step in order:
        parts = {"amount_minor": amount_minor, "stand_in": stand_in} if step == "advised" else {}
        desk.do(STEPS[step](**parts))
    assert held(desk) == amount_minor
    assert counted(desk) == (amount_minor, 1)
    assert_consistent(desk)


@pytest.mark.parametrize("gateway", [False, True], ids=["managed", "gateway"])
@pytest.mark.parametrize("order", orders("declined", "undone"), ids=", ".join)
def test_advice_holds_its_amount_after_a_late_decline(order: tuple[str, ...], gateway: bool) -> None:
    desk = a_desk(gateway)
    for step in order:
        # An expired card is declined in both modes.
        desk.do(sale(expiry="mismatch") if step == "declined" else STEPS[step]())
    assert held(desk) == 1_000
    assert counted(desk) == (1_000, 1)
    assert_consistent(desk)


@pytest.mark.parametrize("gateway", [False, True], ids=["managed", "gateway"])
@pytest.mark.parametrize("again", [False, True], ids=["advised once", "advised again"])
@pytest.mark.parametrize(
    "order",
    [order for order in orders("authorized", "undone", "reversed") if "reversed" in order],
    ids=", ".join,
)
def test_reversal_by_the_network_leaves_no_hold(order: tuple[str, ...], again: bool, gateway: bool) -> None:
    desk = a_desk(gateway)
    for step in order:
        desk.do(STEPS[step]())
    if again:
        desk.do(network_approves(number=90))
    assert held(desk) == 0
    assert counted(desk) == (0, 0)
    assert_consistent(desk)


@pytest.mark.parametrize("gateway", [False, True], ids=["managed", "gateway"])
@pytest.mark.parametrize("order", list(permutations(("authorized", "undone"))), ids=", ".join)
def test_reversal_by_an_edge_alone_leaves_no_hold(order: tuple[str, ...], gateway: bool) -> None:
    desk = a_desk(gateway)
    for step in order:
        desk.do(STEPS[step]())
    desk.do(network_approves(approved=False))
    assert (held(desk), counted(desk)) == (0, (0, 0))
    assert_consistent(desk)


def test_reversal_without_the_late_flag_is_the_networks() -> None:
    """Older journals have reversals by edges without the flag."""
    desk = Desk()
    for command in (sale(), msgspec.structs.replace(edge_reverses(), late=False), network_approves()):
        desk.do(command)
    assert held(desk) == 0
    assert b"late" not in msgspec.json.encode(msgspec.structs.replace(edge_reverses(), late=False))


@pytest.mark.parametrize("gateway", [False, True], ids=["managed", "gateway"])
@pytest.mark.parametrize("stand_in", [True, False], ids=["stand-in", "ordinary"])
@pytest.mark.parametrize("order", [("authorized", "undone"), ("undone", "authorized")], ids=", ".join)
def test_advice_supersedes_the_decision_that_an_edge_reversed(
    order: tuple[str, ...], stand_in: bool, gateway: bool
) -> None:
    desk = a_desk(gateway)
    for step in order:
        desk.do(STEPS[step]())
    published = [
        (each.type, msgspec.json.decode(each.data))
        for each in desk.do(network_approves(stand_in=stand_in)).events
    ]
    assert [type_ for type_, _ in published] == [
        "authorization.decided",
        "authorization.posting_instruction.issued" if gateway else "ledger.hold.created",
    ]
    decided = published[0][1]
    assert (decided["decision"], decided["decided_by"]) == ("approved", "network_stand_in")
    assert decided["supersedes"] == derive(sale().id, Derived.EVENT_FIRST)
    assert decided["authorization_id"] == sale().id
    assert desk.status() == "pending"


@pytest.mark.parametrize("order", [("advised", "undone"), ("undone", "advised")], ids=", ".join)
def test_edge_reversal_leaves_an_increment_that_an_advice_names(order: tuple[str, ...]) -> None:
    desk = Desk()
    desk.authorize(1_000)
    increment: CardCommand = sale(amount_minor=300, references=(LIFE,))
    desk.do(increment)
    for step in order:
        undo = msgspec.structs.replace(edge_reverses(), increment_minor=300)
        desk.do(undo if step == "undone" else network_approves(1_300))
    assert held(desk) == 1_300


def test_increment_reversed_by_an_edge_before_it_came_raises_no_hold() -> None:
    desk = Desk()
    desk.authorize(1_000)
    desk.do(msgspec.structs.replace(edge_reverses(), increment_minor=300))
    desk.do(sale(amount_minor=300, references=(LIFE,)))
    assert held(desk) == 1_000


def assert_consistent(desk: Desk) -> None:
    """Assert that amounts, holds and ids are consistent."""
    for each in desk.known:
        assert min(each.approved_minor, each.cleared_minor, each.reversed_minor) >= 0
        open_minor = each.approved_minor - each.cleared_minor - each.reversed_minor
        hold = desk.account.holds.get(each.hold_id or "")
        assert open_minor == (
            gateway_open_minor(each) if isinstance(desk, GatewayDesk) else hold.amount_minor if hold else 0
        )
    opened = [
        effect.authorization.id
        for done in desk.done
        for effect in done.effects
        if isinstance(effect, AuthorizationOpened)
    ]
    assert len(opened) == len(set(opened))
    holds = [effect.hold.id for effect in desk.effects if isinstance(effect, HoldPlaced)]
    assert len(holds) == len(set(holds))
    if isinstance(desk, GatewayDesk):
        valid(desk)
