"""Posting instructions, field by field; over random lives they add up to each authorization's figures."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.authorization.follow_up import FollowUpRecord
from engine.cards.authorization import Authorization, gateway_open_minor, status
from engine.commands import Reverse, reference_of_message, reference_of_network
from engine.controls import PerTxnCap
from engine.currencies import MerchantAmount
from engine.decision.decide import Decision
from engine.decision.decide import authorize as decide
from engine.decision.inputs import Inputs
from engine.ids import Derived, approval_code, derive
from engine.instant import DAY_MS
from engine.replies import WireAnswer
from tests.support.engine.build import CARD, an_id, authorize, card, key, wire
from tests.support.engine.desk import SALE
from tests.support.engine.gateway_desk import CREATED, ISSUED, RELEASED, GatewayDesk, valid

NOW = "2026-11-21T10:00:00.000Z"


def test_approval_instruction_has_the_exact_bytes() -> None:
    desk = GatewayDesk()
    command = authorize(wire=wire(1, network_txn_id="NTX1"))
    assert desk.do(command).reply == WireAnswer("00", command.id, "000000", 1_000)
    decided, issued = desk.events
    assert decided.type == "authorization.decided"
    assert msgspec.json.decode(decided.data)["hold_id"] is None
    assert (issued.id, issued.type, issued.data) == (
        derive(command.id, Derived.EVENT_SECOND),
        ISSUED,
        f'{{"type":"authorization","direction":"debit","authorization_id":"{command.id}","card_id":"{CARD}",'
        '"amount":"10.00","currency":"EUR","approval_code":"000000","network_ref":"NTX1","mcc":"5411",'
        f'"merchant":{{"name":"Corner Shop","country":"IE"}},"occurred_at":"{NOW}"}}',
    )


def test_instructions_about_a_converted_purchase_have_both_amounts() -> None:
    desk = GatewayDesk()
    charged = MerchantAmount(1_631, "JPY", "0.00613")
    desk.do(authorize(merchant_amount=charged))
    issued = desk.last(ISSUED)
    assert (issued["amount"], issued["currency"]) == ("10.00", "EUR")
    assert issued["merchant_amount"] == {"amount": "1631", "currency": "JPY"}
    assert issued["conversion_rate"] == "0.00613"


def test_an_increment_has_an_approval_code_of_its_own() -> None:
    desk = GatewayDesk()
    desk.authorize(1_000)
    desk.increment(500)
    issued = desk.last(ISSUED)
    assert issued["authorization_id"] == desk.sale().id
    assert issued["approval_code"] == approval_code(an_id(0x10_0000 + desk.number))
    assert (issued["type"], issued["direction"]) == ("increment", "debit")


def test_partial_approval_issues_the_approved_amount() -> None:
    desk = GatewayDesk()
    desk.authorize(1_000, partial_allowed=True, partial_cap_minor=300)
    assert desk.instructions() == "A300"
    assert desk.figures() == (300, 300, 0, 0)
    assert desk.done[-1].reply == WireAnswer("10", desk.sale().id, "000000", 300)


def test_released_instruction_shows_the_remaining_amount() -> None:
    desk = GatewayDesk()
    desk.authorize(1_000)
    desk.reverse(remaining_minor=400)
    assert desk.last(RELEASED) == {
        "authorization_id": desk.sale().id,
        "card_id": CARD,
        "direction": "credit",
        "amount": "6.00",
        "remaining_amount": "4.00",
        "currency": "EUR",
        "network_ref": SALE,
        "occurred_at": NOW,
    }


def test_a_presentment_is_passed_on_with_its_arn() -> None:
    desk = GatewayDesk()
    desk.authorize(1_000)
    desk.present(400, arn="74242420000000000000014", sequence=2, final=False)
    assert desk.last(CREATED) == {
        "authorization_id": desk.sale().id,
        "card_id": CARD,
        "hold_id": None,
        "arn": "74242420000000000000014",
        "sequence": 2,
        "amount": "4.00",
        "currency": "EUR",
        "direction": "debit",
        "mcc": "5411",
        "merchant": {"name": "Shop", "country": "IE"},
        "network_ref": SALE,
        "occurred_at": NOW,
    }


def test_instruction_of_a_follow_up_without_network_id_has_that_of_its_original() -> None:
    desk = GatewayDesk()
    desk.authorize(1_000)
    named = (reference_of_message(desk.sale().command_key),)
    reversal = desk.follow_up(Reverse, SALE, references=named)
    desk.do(msgspec.structs.replace(reversal, wire=wire(77)))
    assert desk.last(RELEASED)["network_ref"] == SALE


@pytest.mark.parametrize("code", [None, "ABC123"])
def test_advice_is_issued_with_the_approval_code_of_the_network(code: str | None) -> None:
    desk = GatewayDesk()
    desk.advise(300, approval_code=code)
    decided, issued = (msgspec.json.decode(event.data) for event in desk.events)
    assert (decided["decision"], decided["decided_by"]) == ("approved", "network_stand_in")
    assert (issued["type"], issued["approval_code"]) == ("authorization", code)


# --- random lives ---

AMOUNTS = st.integers(min_value=1, max_value=6_000)
SALES = st.sampled_from(["a", "b", "c"])
VERBS = st.sampled_from(
    [
        "authorize",
        "refund",
        "increment",
        "present",
        "part",
        "give",
        "give_part",
        "advise",
        "advise_no",
        "lower",
        "less",
    ]
)
MOVES = st.one_of(
    st.tuples(VERBS, AMOUNTS, SALES),
    st.tuples(st.just("reverse"), SALES),
    st.tuples(st.just("undo"), st.integers(min_value=-3, max_value=3), SALES),
    st.tuples(st.just("wait"), st.integers(min_value=1, max_value=9)),
)


def move(desk: GatewayDesk, used: set[str], verb: str, *arguments: Any) -> None:
    *amounts, sale = arguments
    if verb == "wait":
        desk.now_ms += sale * DAY_MS
        return
    if verb in {"authorize", "refund"} and sale in used:
        return  # a network gives each sale its own id
    used.add(sale)
    if verb == "undo":
        # The reference of a message near the newest one, or of one that is still to come.
        message = reference_of_message(key(max(0, desk.number + amounts[0])))
        desk.reverse(sale, references=(message, reference_of_network(sale)))
    else:
        getattr(desk, verb)(*arguments)


@settings(max_examples=150, deadline=None)
@given(AMOUNTS, AMOUNTS, st.lists(MOVES, min_size=3, max_size=30))
def test_instructions_of_random_lives_add_up_to_the_figures(
    sale_minor: int, refund_minor: int, moves: list[tuple[Any, ...]]
) -> None:
    desk = GatewayDesk(card=card(account_id=None, controls=(PerTxnCap(5_000),)))
    desk.authorize(sale_minor, "a")
    desk.refund(refund_minor, "b")
    used = {"a", "b"}
    for verb, *arguments in moves:
        move(desk, used, verb, *arguments)
        assert min(desk.counters) >= 0
    sums: Counter[tuple[str, str]] = Counter()
    for event in desk.events:
        data = msgspec.json.decode(event.data)
        if "posting_instruction" in event.type:
            sums[event.type, data["authorization_id"]] += int(data["amount"].replace(".", ""))
    given_up: Counter[str | None] = Counter()
    for executed in desk.done:
        if isinstance(executed.outcome, FollowUpRecord):
            given_up[executed.authorization_id] += executed.outcome.released_minor
    for known in list(desk.known):
        issued, released, cleared = (sums[type_, known.id] for type_ in (ISSUED, RELEASED, CREATED))
        assert_adds_up(known, issued, released - given_up[known.id], cleared)
        left = issued - released - cleared
        assert left == gateway_open_minor(known) if gateway_open_minor(known) else left <= 0
    assert_inputs_survive_storage(desk)
    valid(desk)


PAGE = (Path(__file__).parents[3] / "ops/docs/GATEWAY.md").read_text("utf-8")


def page_ledger() -> Any:
    """A ledger of the class in the page, compiled from the text of the page."""
    (shown,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(shown, "GATEWAY.md", "exec"), names)
    return names["Ledger"]()


@settings(max_examples=150, deadline=None)
@given(AMOUNTS, AMOUNTS, st.lists(MOVES, min_size=3, max_size=20), st.data())
def test_ledger_of_the_page_agrees_in_any_delivery_order(
    sale_minor: int, refund_minor: int, moves: list[tuple[Any, ...]], data: st.DataObject
) -> None:
    desk = GatewayDesk()
    desk.authorize(sale_minor, "a")
    desk.refund(refund_minor, "b")
    used = {"a", "b"}
    for verb, *arguments in moves:
        move(desk, used, verb, *arguments)
    events = [
        {"id": each.id, "type": each.type, "data": msgspec.json.decode(each.data)} for each in desk.events
    ]
    ledger = page_ledger()
    for event in data.draw(st.permutations(events + events[::2])):
        ledger.take(event)
    known = list(desk.known)
    signs = {"purchase": 1, "force_post": 1, "refund": -1, "verification": 0}
    assert ledger.spent == sum(signs[each.kind] * each.cleared_minor for each in known)
    assert ledger.reserved == sum(gateway_open_minor(each) for each in known if each.kind == "purchase")


def assert_adds_up(known: Authorization, issued: int, reversed_: int, cleared: int) -> None:
    unasked = known.kind == "force_post" or (known.kind == "refund" and not issued)
    assert issued == (0 if unasked else known.approved_minor)
    assert (reversed_, cleared) == (known.reversed_minor, known.cleared_minor)
    open_minor = gateway_open_minor(known)
    assert open_minor == known.remainder_minor >= 0
    if open_minor:
        assert known.closed is None
        assert status(known, held=False) == ("partially_cleared" if known.cleared_minor else "pending")
    else:
        assert known.closed is not None or not known.approved_minor or unasked
        assert status(known, held=False) in {"cleared", "reversed", "declined", "posted"}


def assert_inputs_survive_storage(desk: GatewayDesk) -> None:
    for executed in desk.done:
        if isinstance(executed.outcome, Decision):
            seen = msgspec.json.decode(msgspec.json.encode(executed.inputs), type=Inputs)
            assert seen.programme_mode == "gateway"
            assert seen == executed.inputs


@settings(max_examples=100, deadline=None)
@given(AMOUNTS, AMOUNTS, st.booleans())
def test_gateway_decision_replays(first: int, delta: int, cleared: bool) -> None:
    desk = GatewayDesk(card=card(account_id=None, controls=(PerTxnCap(5_000),)))
    desk.authorize(first)
    if cleared:
        desk.present(1, final=False)
    command = authorize(99, amount_minor=delta, references=(reference_of_network(SALE),))
    executed = desk.do(command)
    assert executed.inputs is not None
    assert msgspec.json.encode(decide(command, executed.inputs)) == msgspec.json.encode(executed.outcome)
