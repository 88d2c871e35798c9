"""A card learns whether its cardholder is active, and decides by it from then on."""

from __future__ import annotations

from typing import Any

from engine.card import Card
from engine.commands import SetCardholderStatus
from engine.effects import CardholderSet
from engine.execute import NOT_FOUND, Executed, Surroundings, execute
from engine.replies import Answer, Done
from tests.engine.build import CARD, NOW_MS, TENANT, account, an_id, authorize, card, key, programme


def told(to: Card, *, active: bool, **parts: Any) -> Executed:
    of: dict[str, Any] = {"tenant_id": TENANT, "live": False} | parts
    command = SetCardholderStatus(id=an_id(7), command_key=key(7), card_id=CARD, active=active, **of)
    return execute(command, Surroundings(to, account(), programme()), NOW_MS)


def code(of: Card) -> str:
    reply = execute(authorize(), Surroundings(of, account(), programme()), NOW_MS).reply
    assert isinstance(reply, Answer)
    return reply.response_code


def test_a_blocked_cardholder_can_pay_nothing() -> None:
    of = card()
    executed = told(of, active=False)
    assert (executed.journaled, executed.effects, executed.events) == (True, (CardholderSet(False),), ())
    assert executed.reply == Done(200, {"id": CARD, "cardholder_active": False})
    assert code(of) == "57"
    assert told(of, active=True).journaled
    assert code(of) == "00"


def test_what_is_known_changes_nothing() -> None:
    of = card()
    executed = told(of, active=True)
    assert (executed.journaled, executed.effects) == (False, ())
    assert isinstance(executed.reply, Done)


def test_another_tenant_is_not_heard() -> None:
    of = card()
    for parts in ({"tenant_id": an_id(0xA2)}, {"live": True}):
        assert told(of, active=False, **parts).reply == NOT_FOUND
    assert of.cardholder_active
