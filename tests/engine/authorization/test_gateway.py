"""Gateway mode: the figures and the status of an authorization after its messages, and the deciding party.

``test_instructions`` has the posting instructions.
"""

from __future__ import annotations

from typing import Any, Final

import pytest

from engine.authorization.authorizing import question
from engine.authorization.effects import StandInRecorded
from engine.authorization.executed import CommandContext
from engine.cards.authorization_states import original_view
from engine.cards.card import DeclaredBalance, declared_remaining
from engine.commands import Advise, Present, reference_of_message, reference_of_network
from engine.controls import MccDeny, PerDayAmountCap, PerTxnCap
from engine.decision.decide import Decision
from engine.decision.delegation import EndpointResult
from engine.instant import DAY_MS
from engine.programmes.stand_in import Grant
from engine.replies import Done, Problem
from tests.support.engine.build import (
    NOW_MS,
    an_id,
    authorize,
    card,
    declare_balance,
    key,
    load,
    programme,
    read_balance,
)
from tests.support.engine.desk import SALE
from tests.support.engine.gateway_desk import GatewayDesk, valid

# The messages; the approved, open, cleared and reversed amounts; the status; the day's count and amount; the
# instructions (``GatewayDesk.instructions``). Amounts above 50.00 are declined.
LIVES: Final = [
    ("authorize 1000", "1000 1000 0 0", "pending", "1 1000", "A1000"),
    ("authorize 1000, increment 500", "1500 1500 0 0", "pending", "1 1500", "A1000 I500"),
    ("authorize 1000, reverse", "1000 0 0 1000", "reversed", "0 0", "A1000 G1000"),
    ("authorize 1000, reverse, reverse", "1000 0 0 1000", "reversed", "0 0", "A1000 G1000"),
    ("authorize 1000, lower 300", "1000 300 0 700", "pending", "1 300", "A1000 G700"),
    ("authorize 1000, lower 1300", "1000 1000 0 0", "pending", "1 1000", "A1000"),
    ("authorize 1000, increment 500, less 500", "1500 1000 0 500", "pending", "1 1000", "A1000 I500 G500"),
    ("authorize 1000, reverse, increment 500", "500 500 0 0", "pending", "1 500", "A1000 G1000 A500"),
    ("authorize 1000, present 1000", "1000 0 1000 0", "cleared", "1 1000", "A1000 D1000"),
    ("authorize 1000, present 400", "1000 0 400 0", "cleared", "1 1000", "A1000 D400 G600"),
    ("authorize 1000, part 400", "1000 600 400 0", "partially_cleared", "1 1000", "A1000 D400"),
    ("authorize 1000, part 400, part 600", "1000 0 1000 0", "cleared", "1 1000", "A1000 D400 D600"),
    ("authorize 1000, part 400, reverse", "1000 0 400 600", "cleared", "1 400", "A1000 D400 G600"),
    (
        "authorize 1000, part 400, increment 100",
        "1100 700 400 0",
        "partially_cleared",
        "1 1100",
        "A1000 D400 I100",
    ),
    ("authorize 1000, present 1200", "1000 0 1200 0", "cleared", "1 1000", "A1000 D1200"),
    ("authorize 1000, present 1000, reverse", "1000 0 1000 0", "cleared", "1 1000", "A1000 D1000"),
    ("authorize 1000, reverse, present 1000", "1000 0 1000 1000", "cleared", "0 0", "A1000 G1000 D1000"),
    ("authorize 1000, advise 1700", "1700 1700 0 0", "pending", "1 1700", "A1000 I700"),
    ("authorize 1000, advise 300", "1000 300 0 700", "pending", "1 300", "A1000 G700"),
    ("authorize 1000, advise 1000", "1000 1000 0 0", "pending", "1 1000", "A1000"),
    ("authorize 1000, advise_no 1000", "1000 0 0 1000", "reversed", "0 0", "A1000 G1000"),
    ("authorize 1000, reverse, advise 1000", "1000 0 0 1000", "reversed", "0 0", "A1000 G1000"),
    ("authorize 5001", "0 0 0 0", "declined", "0 0", ""),
    ("authorize 5001, advise 5001", "5001 5001 0 0", "pending", "1 5001", "A5001"),
    ("authorize 5001, reverse", "0 0 0 0", "declined", "0 0", ""),
    ("authorize 5001, present 5001", "5001 0 5001 0", "posted", "0 5001", "D5001"),
    ("authorize 1000, increment 5001", "1000 1000 0 0", "pending", "1 1000", "A1000"),
    ("advise 300", "300 300 0 0", "pending", "1 300", "A300"),
    ("advise_no 300", "0 0 0 0", "declined", "0 0", ""),
    ("reverse, authorize 1000", "1000 0 0 1000", "reversed", "0 0", "A1000 G1000"),
    ("reverse, advise 1000", "1000 0 0 1000", "reversed", "0 0", "A1000 G1000"),
    ("present 1000", "1000 0 1000 0", "posted", "0 1000", "D1000"),
    ("authorize 0", "0 0 0 0", "posted", "0 0", ""),
    ("refund 700", "700 700 0 0", "pending", "0 0", "R700"),
    ("refund 700, give 700", "700 0 700 0", "cleared", "0 0", "R700 C700"),
    ("refund 700, give 300", "700 0 300 0", "cleared", "0 0", "R700 C300 T400"),
    ("authorize 1000, part 400, present 100", "1000 0 500 0", "cleared", "1 1000", "A1000 D400 D100 G500"),
    ("refund 700, give_part 300, give 400", "700 0 700 0", "cleared", "0 0", "R700 C300 C400"),
    ("refund 700, reverse, reverse", "700 0 0 700", "reversed", "0 0", "R700 T700"),
    ("refund 700, give_part 300, reverse", "700 0 300 400", "cleared", "0 0", "R700 C300 T400"),
    ("reverse, refund 700", "700 0 0 700", "reversed", "0 0", "R700 T700"),
    ("give 700", "700 0 700 0", "posted", "0 0", "C700"),
]


@pytest.mark.parametrize(("said", "figures", "ended", "counters", "instructions"), LIVES, ids=lambda row: row)
def test_figures_and_instructions(
    said: str, figures: str, ended: str, counters: str, instructions: str
) -> None:
    desk = GatewayDesk(card=card(account_id=None, controls=(PerTxnCap(5_000),)))
    for step in said.split(", "):
        verb, *amounts = step.split()
        assert getattr(desk, verb)(*map(int, amounts)) in {"00", "61", "85"}
    assert " ".join(map(str, desk.figures())) == figures
    assert desk.status() == ended
    assert " ".join(map(str, desk.counters)) == counters
    assert desk.instructions() == instructions
    valid(desk)


# --- reversals of increments ---


@pytest.mark.parametrize(
    ("parts", "left"), [({}, [1_000, 1_000]), ({"remaining_minor": 200}, [1_200, 1_200])]
)
def test_reversal_that_names_an_increment_reverses_it_once(parts: dict[str, Any], left: list[int]) -> None:
    desk = GatewayDesk()
    desk.authorize(1_000)
    desk.increment(500)
    named = (reference_of_message(key(desk.number)), reference_of_network(SALE))
    seen = []
    for _ in left:
        assert desk.reverse(references=named, **parts) == "00"
        seen.append(desk.figures()[1])
    assert seen == left
    assert desk.counters == (1, left[-1])


def test_reversal_of_an_increment_releases_at_most_the_open_amount() -> None:
    desk = GatewayDesk()
    desk.authorize(1_000)
    desk.increment(500)
    desk.present(1_200, final=False)
    desk.reverse(references=(reference_of_message(key(desk.number - 1)),))
    assert desk.figures() == (1_500, 0, 1_200, 300)
    assert desk.status() == "cleared"


def test_increment_reversed_before_it_came_is_issued_and_released() -> None:
    desk = GatewayDesk()
    desk.authorize(1_000)
    coming = reference_of_message(key(desk.number + 2))
    desk.reverse("unheard", references=(coming,))
    assert desk.increment(500) == "00"
    assert desk.figures() == (1_500, 1_000, 0, 500)
    assert desk.counters == (1, 1_000)
    assert desk.instructions() == "A1000 I500 G500"
    assert desk.sale().increments[coming].left_minor == 0


def test_only_purchases_accept_increments() -> None:
    desk = GatewayDesk()
    desk.authorize(700, kind="refund")
    assert not original_view(desk.sale(), None).open


# --- refusals ---


PRESENTED = {"kind": "purchase", "arn": None, "sequence": 1}


@pytest.mark.parametrize(
    ("make", "parts", "code"),
    [
        (Present, PRESENTED | {"currency": "USD"}, "12"),
        (Present, PRESENTED | {"amount_minor": 0}, "13"),
        (Advise, {"channel": "pos", "currency": "USD"}, "12"),
    ],
)
def test_invalid_follow_up_publishes_no_instruction(make: Any, parts: dict[str, Any], code: str) -> None:
    desk = GatewayDesk()
    desk.authorize(1_000)
    before = len(desk.events)
    shop = {"currency": "EUR", "mcc": "5411", "merchant_name": "Shop", "merchant_country": "IE"}
    assert desk.code(desk.follow_up(make, SALE, **(shop | {"amount_minor": 500} | parts))) == code
    assert (desk.figures(), len(desk.events)) == ((1_000, 1_000, 0, 0), before)


def test_gateway_card_has_no_balance_and_refuses_loads() -> None:
    desk = GatewayDesk()
    refused = desk.do(load()).reply
    assert isinstance(refused, Problem)
    assert (refused.status, refused.slug) == (409, "card-not-funded")
    desk.authorize(1_000)
    shown = desk.do(read_balance()).reply
    assert isinstance(shown, Done)
    assert {name: shown.body[name] for name in ("account_id", "posted", "held", "available")} == {
        "account_id": None,
        "posted": "0.00",
        "held": "0.00",
        "available": "0.00",
    }


def test_gateway_authorization_does_not_lapse() -> None:
    desk = GatewayDesk()
    desk.authorize(1_000)
    refused = desk.expire().reply
    assert isinstance(refused, Problem)
    assert refused.slug == "nothing-held"
    desk.now_ms += 400 * DAY_MS
    desk.increment(500)
    assert (desk.figures(), desk.status()) == ((1_500, 1_500, 0, 0), "pending")


def test_reversal_subtracts_on_the_day_of_the_original() -> None:
    desk = GatewayDesk()
    desk.authorize(1_000)
    desk.now_ms += DAY_MS
    desk.authorize(200, "today")
    desk.reverse()
    assert desk.counters == (1, 200)


# --- the deciding party ---


@pytest.mark.parametrize(
    ("parts", "amount_minor", "reason"),
    [
        ({}, 9_000_000, None),
        ({"state": "suspended"}, 1_000, "card_suspended"),
        ({"cardholder_active": False}, 1_000, "cardholder_blocked"),
        ({"exp_year": 2020}, 1_000, "card_expired"),
        ({"controls": (MccDeny(("5411",)),)}, 1_000, "mcc_not_allowed"),
        ({"controls": (PerDayAmountCap(999),)}, 1_000, "per_day_amount_exceeded"),
    ],
)
def test_all_rules_except_funds_apply(parts: dict[str, Any], amount_minor: int, reason: str | None) -> None:
    desk = GatewayDesk(card=card(account_id=None, **parts))
    desk.authorize(amount_minor)
    decision = desk.done[-1].outcome
    assert isinstance(decision, Decision)
    assert (decision.reason, decision.hold_expires_ms) == (reason, None)
    assert [step.outcome for step in decision.trace if step.rule == "funds"] == (
        ["skip"] if not reason else []
    )
    assert bool(desk.instructions()) == (reason is None)


def test_refund_is_issued_in_any_card_state() -> None:
    desk = GatewayDesk(card=card(account_id=None, state="stolen"))
    assert desk.authorize(700, kind="refund") == "00"
    assert desk.instructions() == "R700"


DELEGATED = programme(mode="gateway", decisioning="delegated", decision_url="https://issuer.example/decide")


def delegated(endpoint_result: EndpointResult | None, **parts: Any) -> GatewayDesk:
    declared = DeclaredBalance(2_500, 0, NOW_MS)
    made = card(account_id=None, **({"declared": declared} | parts))
    return GatewayDesk(card=made, programme=DELEGATED, endpoint_result=endpoint_result)


OUTAGE = an_id(0xF1)
NO_ANSWER = EndpointResult(trigger="timeout", grant=Grant("within_ceilings", OUTAGE, 1_000, 10_000))


@pytest.mark.parametrize(
    ("endpoint_result", "parts", "code", "instructions", "decider"),
    [
        (EndpointResult("approved"), {}, "00", "A1000", "programme"),
        (EndpointResult("declined"), {}, "05", "", "programme"),
        (
            EndpointResult("approved", 400),
            {"partial_allowed": True},
            "10",
            "A400",
            "programme",
        ),
        (EndpointResult("approved", 400), {}, "05", "", "programme"),
        (NO_ANSWER, {}, "00", "A1000", "stand_in"),
        (EndpointResult(trigger="timeout", grant=Grant("mode_disabled", OUTAGE)), {}, "05", "", "stand_in"),
        (EndpointResult(trigger="timeout", grant=Grant("not_triggered")), {}, "05", "", "platform"),
        (NO_ANSWER, {"amount_minor": 2_501}, "51", "", "stand_in"),
    ],
)
def test_programme_decides_or_stand_in_decides(
    endpoint_result: EndpointResult, parts: dict[str, Any], code: str, instructions: str, decider: str
) -> None:
    desk = delegated(endpoint_result)
    facts = {"amount_minor": 1_000} | parts
    assert desk.authorize(**facts) == code
    decision = desk.done[-1].outcome
    assert isinstance(decision, Decision)
    assert decision.decided_by == decider
    assert desk.instructions() == instructions
    valid(desk)


def test_stand_in_consumes_the_declared_balance_and_is_recorded() -> None:
    desk = delegated(NO_ANSWER)
    desk.authorize(1_000)
    (recorded,) = (effect for effect in desk.done[-1].effects if isinstance(effect, StandInRecorded))
    assert (recorded.decision, recorded.stand_in.exposure_minor) == ("approved", 1_000)
    assert declared_remaining(desk.card) == 1_500
    desk.reverse()
    assert declared_remaining(desk.card) == 1_500
    assert desk.instructions() == "A1000 G1000"
    assert desk.do(declare_balance()).journaled


def test_question_about_an_increment_names_its_authorization() -> None:
    desk = delegated(EndpointResult("approved"))
    desk.authorize(1_000)
    asked = authorize(9, amount_minor=500, references=(reference_of_network(SALE),))
    context = CommandContext(desk.card, None, DELEGATED, desk.sale())
    found = question(asked, context, desk.now_ms)
    assert found is not None
    assert (found.operation, found.authorization_id, found.amount_minor) == ("increment", desk.sale().id, 500)
    desk.reverse()
    found = question(asked, context, desk.now_ms)
    assert found is not None
    assert (found.operation, found.authorization_id) == ("authorization", asked.id)
