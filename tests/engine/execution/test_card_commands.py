"""Commands that set a card's cardholder status and its declared balance."""

from __future__ import annotations

from engine.authorization.effects import BalanceDeclared, CardholderSet
from engine.authorization.executed import NOT_FOUND, CommandContext, Executed
from engine.cards.card import Card, DeclaredBalance
from engine.commands import CardCommand
from engine.execution.execute import execute
from engine.execution.issuing import card_of
from engine.replies import Done, Problem, WireAnswer
from tests.support.engine.build import (
    CARD,
    NOW_MS,
    account,
    an_id,
    authorize,
    card,
    create_card,
    declare_balance,
    programme,
    set_cardholder_status,
)


def execute_on(to: Card, command: CardCommand, now_ms: int = NOW_MS) -> Executed:
    return execute(command, CommandContext(to, account(), programme()), now_ms)


def code(of: Card) -> str:
    reply = execute_on(of, authorize()).reply
    assert isinstance(reply, WireAnswer)
    return reply.response_code


def test_card_of_a_blocked_cardholder_declines() -> None:
    of = card()
    executed = execute_on(of, set_cardholder_status())
    assert (executed.journaled, executed.effects, executed.events) == (True, (CardholderSet(False),), ())
    assert executed.reply == Done(200, {"id": CARD, "cardholder_active": False})
    assert code(of) == "57"
    assert execute_on(of, set_cardholder_status(2, active=True)).journaled
    assert code(of) == "00"


def test_unchanged_cardholder_status_is_journaled_under_its_key() -> None:
    """A copy of the command that arrives after a later one finds its key used, and executes nothing."""
    executed = execute_on(card(), set_cardholder_status(active=True))
    assert (executed.journaled, executed.effects) == (True, (CardholderSet(True),))
    assert isinstance(executed.reply, Done)


def test_card_issued_inactive_declines_until_activated() -> None:
    of = card_of(create_card(cardholder_active=False), NOW_MS)
    assert code(of) == "57"
    execute_on(of, set_cardholder_status(active=True))
    assert code(of) == "00"


def test_new_declaration_resets_the_consumed_amount() -> None:
    of = card(declared=DeclaredBalance(9_000, 500, 1))
    executed = execute_on(of, declare_balance(), NOW_MS)
    assert executed.effects == (BalanceDeclared(DeclaredBalance(2_500, 0, NOW_MS)),)
    assert of.declared == DeclaredBalance(2_500, 0, NOW_MS)
    assert executed.reply == Done(
        200,
        {
            "card_id": CARD,
            "balance": {"amount": "25.00", "currency": "EUR"},
            "consumed": {"amount": "0.00", "currency": "EUR"},
            "remaining": {"amount": "25.00", "currency": "EUR"},
            "declared_at": "2026-11-21T10:00:00.000Z",
        },
    )


def test_declared_balance_must_have_the_cards_currency() -> None:
    of = card()
    reply = execute_on(of, declare_balance(currency="USD")).reply
    assert isinstance(reply, Problem)
    assert (reply.status, reply.slug, of.declared) == (400, "currency-mismatch", None)


def test_command_of_another_tenant_is_not_found() -> None:
    of = card()
    for command in (
        set_cardholder_status(tenant_id=an_id(0xA2)),
        set_cardholder_status(live=True),
        declare_balance(tenant_id=an_id(0xA2)),
        declare_balance(live=True),
    ):
        assert execute_on(of, command).reply == NOT_FOUND
    assert (of.cardholder_active, of.declared) == (True, None)
