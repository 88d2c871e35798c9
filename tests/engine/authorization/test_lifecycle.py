"""What happens to an authorization after its decision: a table of single steps, and random lives against
the books.

The random lives fold every command through the real host code's pure part, so what they prove of
``execute`` holds for the journal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.authorization.effects import (
    AuthorizationOpened,
    Effect,
    HoldClosed,
    HoldLapsed,
    HoldPlaced,
    Transferred,
)
from engine.authorization.executed import CommandContext, Executed
from engine.cards.account import Account
from engine.cards.authorization import Authorization, gateway_open_minor, status
from engine.cards.authorization_index import AuthorizationIndex
from engine.cards.card import Card, has_tombstone
from engine.cards.hold import TRANSITIONS
from engine.commands import (
    Advise,
    AuthorizationCommand,
    Authorize,
    CardCommand,
    Expire,
    Present,
    Reverse,
    reference_of_id,
    reference_of_message,
    reference_of_network,
)
from engine.controls import PerTxnCap
from engine.decision.decide import Decision
from engine.decision.decide import authorize as decide
from engine.decision.inputs import Inputs
from engine.execution.execute import execute
from engine.instant import DAY_MS
from engine.limits import TOMBSTONES_FORGOTTEN_MAX
from engine.replies import WireAnswer
from engine.trace import step_view
from tests.engine.build import (
    ACCOUNT,
    CARD,
    NOW_MS,
    TENANT,
    account,
    an_id,
    authorize,
    card,
    key,
    programme,
    wire,
)

SALE = "sale"
ENDED = {"released": "released", "captured": "captured"}


@dataclass
class Desk:
    """One card in memory, as its owner has it; ``at`` moves its time."""

    card: Card = field(default_factory=card)
    account: Account = field(default_factory=account)
    known: AuthorizationIndex = field(default_factory=AuthorizationIndex)
    now_ms: int = NOW_MS
    entries: list[Transferred] = field(default_factory=list)
    effects: list[Effect] = field(default_factory=list)
    done: list[Executed] = field(default_factory=list)
    number: int = 0

    def do(self, command: CardCommand) -> Executed:
        original: Authorization | None = None
        if isinstance(command, AuthorizationCommand):
            original = self.known.find_original(command, self.account, self.now_ms)
        executed = execute(
            command, CommandContext(self.card, self.account, programme(), original), self.now_ms
        )
        for effect in executed.effects:
            if isinstance(effect, AuthorizationOpened):
                self.known.add(effect.authorization)
            if isinstance(effect, Transferred):
                self.entries.append(effect)
        if original is not None and executed.authorization_id == original.id:
            self.known.add_reference(reference_of_message(command.command_key), original)
        self.effects += executed.effects
        self.done.append(executed)
        return executed

    def code(self, command: CardCommand) -> str:
        reply = self.do(command).reply
        assert isinstance(reply, WireAnswer)
        return reply.response_code

    def _next(self) -> int:
        self.number += 1
        return self.number

    def authorize(self, amount_minor: int, sale: str = SALE, **parts: Any) -> str:
        number = self._next()
        identity = wire(number, network_txn_id=sale)
        return self.code(authorize(number, amount_minor=amount_minor, wire=identity, **parts))

    def increment(self, amount_minor: int, sale: str = SALE) -> str:
        return self.authorize(amount_minor, sale, references=(reference_of_network(sale),))

    def reverse(self, sale: str = SALE, **parts: Any) -> str:
        return self.code(self._named(Reverse, sale, **parts))

    def present(self, amount_minor: int, sale: str = SALE, **parts: Any) -> str:
        facts = {"kind": "purchase", "arn": None, "sequence": 1} | parts
        return self.code(self._named(Present, sale, amount_minor=amount_minor, **_sale(), **facts))

    def advise(self, amount_minor: int, sale: str = SALE, **parts: Any) -> str:
        return self.code(
            self._named(Advise, sale, amount_minor=amount_minor, channel="pos", **_sale(), **parts)
        )

    def refund(self, amount_minor: int, sale: str = SALE) -> str:
        return self.authorize(amount_minor, sale, kind="refund")

    def part(self, amount_minor: int, sale: str = SALE) -> str:
        """A presentment after which more may come."""
        return self.present(amount_minor, sale, final=False)

    def give(self, amount_minor: int, sale: str = SALE) -> str:
        """The presentment of a refund."""
        return self.present(amount_minor, sale, kind="refund")

    def give_part(self, amount_minor: int, sale: str = SALE) -> str:
        return self.present(amount_minor, sale, kind="refund", final=False)

    def lower(self, left_minor: int, sale: str = SALE) -> str:
        """A partial reversal."""
        return self.reverse(sale, remaining_minor=left_minor)

    def undo(self, number: int, sale: str = SALE) -> str:
        """The reversal of the message with that number."""
        return self.reverse(sale, references=(reference_of_message(key(number)), reference_of_network(sale)))

    def advise_no(self, amount_minor: int, sale: str = SALE) -> str:
        """The advice of a decline."""
        return self.advise(amount_minor, sale, approved=False)

    def expire(self, sale: str = SALE) -> Executed:
        number = self._next()
        return self.do(
            Expire(
                id=an_id(0x40_0000 + number),
                command_key=key(0x40_0000 + number),
                card_id=CARD,
                tenant_id=TENANT,
                references=(reference_of_network(sale),),
            )
        )

    def _named(self, make: Any, sale: str, **parts: Any) -> Any:
        number = self._next()
        facts = {"references": (reference_of_network(sale),)} | parts
        return make(
            id=an_id(0x30_0000 + number),
            command_key=key(0x30_0000 + number),
            card_id=CARD,
            fingerprint=key(number),
            wire=wire(number, network_txn_id=sale),
            **facts,
        )

    def sale(self, sale: str = SALE) -> Authorization:
        return self.known[reference_of_network(sale)]

    def status(self, sale: str = SALE) -> str:
        authorization = self.sale(sale)
        return status(authorization, held=authorization.hold_id in self.account.holds)

    @property
    def balance(self) -> tuple[int, int]:
        return self.account.posted_minor, self.account.held_minor


def _sale() -> dict[str, str]:
    return {"currency": "EUR", "mcc": "5411", "merchant_name": "Shop", "merchant_country": "IE"}


STEPS: dict[str, tuple[list[tuple[Any, ...]], tuple[int, int], str]] = {
    "held": ([("authorize", 1_000)], (10_000, 1_000), "pending"),
    "raised": ([("authorize", 1_000), ("increment", 500)], (10_000, 1_500), "pending"),
    "given back": ([("authorize", 1_000), ("reverse",)], (10_000, 0), "reversed"),
    "given back twice": ([("authorize", 1_000), ("reverse",), ("reverse",)], (10_000, 0), "reversed"),
    "captured": ([("authorize", 1_000), ("present", 1_000)], (9_000, 0), "cleared"),
    "captured in part": ([("authorize", 1_000), ("present", 400)], (9_600, 0), "cleared"),
    "over-captured": ([("authorize", 1_000), ("present", 12_000)], (-2_000, 0), "cleared"),
    "captured, then reversed": (
        [("authorize", 1_000), ("present", 700), ("reverse",)],
        (9_300, 0),
        "cleared",
    ),
    "reversed, then captured": (
        [("authorize", 1_000), ("reverse",), ("present", 1_000)],
        (9_000, 0),
        "cleared",
    ),
    "lapsed": ([("authorize", 1_000), ("expire",)], (10_000, 0), "lapsed"),
    "lapsed, then raised": (
        [("authorize", 1_000), ("expire",), ("increment", 1)],
        (10_000, 1_001),
        "pending",
    ),
    "lapsed, then captured": ([("authorize", 1_000), ("expire",), ("present", 900)], (9_100, 0), "cleared"),
    "declined, then advised": ([("authorize", 20_000), ("advise", 20_000)], (10_000, 20_000), "pending"),
    "declined, then presented": ([("authorize", 20_000), ("present", 20_000)], (-10_000, 0), "posted"),
    "advised up": ([("authorize", 1_000), ("advise", 1_700)], (10_000, 1_700), "pending"),
    "advised down": ([("authorize", 1_000), ("advise", 300)], (10_000, 300), "pending"),
    "advised only": ([("advise", 300)], (10_000, 300), "pending"),
    "reversed before it came": ([("reverse",), ("authorize", 1_000)], (10_000, 0), "reversed"),
    "reversed before its advice": ([("reverse",), ("advise", 1_000)], (10_000, 0), "reversed"),
    "forced": ([("present", 1_000)], (9_000, 0), "posted"),
}


@pytest.mark.parametrize("name", STEPS)
def test_steps(name: str) -> None:
    steps, balance, ended = STEPS[name]
    desk = Desk()
    for verb, *amounts in steps:
        getattr(desk, verb)(*amounts)
    assert (desk.balance, desk.status()) == (balance, ended)


def test_a_partial_reversal_leaves_what_de95_says() -> None:
    desk = Desk()
    desk.authorize(1_000)
    assert desk.reverse(remaining_minor=400) == "00"
    assert desk.balance == (10_000, 400)
    assert desk.reverse(remaining_minor=600) == "00"
    assert desk.balance == (10_000, 400)
    assert (desk.card.day_count, desk.card.day_amount_minor) == (1, 400)


def test_a_whole_reversal_gives_count_and_amount_back() -> None:
    desk = Desk()
    desk.authorize(1_000)
    desk.reverse()
    assert (desk.card.day_count, desk.card.day_amount_minor) == (0, 0)


def test_a_sale_that_the_merchant_saw_declined_does_not_count() -> None:
    desk = Desk()
    desk.authorize(1_000)
    assert desk.advise(1_000, approved=False) == "00"
    assert (desk.balance, desk.status()) == ((10_000, 0), "reversed")
    assert (desk.card.day_count, desk.card.day_amount_minor) == (0, 0)
    desk.authorize(1_000, "in part")
    desk.present(400, "in part", final=False)
    desk.advise(1_000, "in part", approved=False)
    assert (desk.card.day_count, desk.card.day_amount_minor) == (1, 400)


def test_a_reversal_of_yesterday_changes_no_counter_of_today() -> None:
    desk = Desk()
    desk.authorize(1_000)
    desk.now_ms += DAY_MS
    desk.authorize(200, "today")
    desk.reverse()
    assert (desk.card.day_count, desk.card.day_amount_minor) == (1, 200)


def test_one_increment_is_undone_by_itself() -> None:
    desk = Desk()
    desk.authorize(1_000)
    desk.increment(500)
    assert desk.reverse(increment_minor=500) == "00"
    assert desk.balance == (10_000, 1_000)


@pytest.mark.parametrize(
    ("parts", "left"),
    [
        ({}, [1_000, 1_000]),
        ({"remaining_minor": 200}, [1_200, 1_200]),
        ({"increment_minor": 500}, [1_000, 1_000]),
    ],
)
def test_a_reversal_that_names_an_increment_is_about_that_alone(
    parts: dict[str, Any], left: list[int]
) -> None:
    """However often it comes, and under whatever identity of its own."""
    desk = Desk()
    desk.authorize(1_000)
    named = (reference_of_message(key(desk.number + 1)), reference_of_network(SALE))
    desk.increment(500)
    desk.known.add_reference(named[0], desk.known[named[1]])
    held = []
    for _ in left:
        assert desk.reverse(references=named, **parts) == "00"
        held.append(desk.account.held_minor)
    assert held == left
    assert desk.status() == "pending"


def test_a_reversal_of_a_declined_increment_gives_nothing_back() -> None:
    desk = Desk()
    desk.authorize(1_000)
    named = (reference_of_message(key(desk.number + 1)),)
    assert desk.increment(9_500) == "51"
    desk.known.add_reference(named[0], desk.known[reference_of_network(SALE)])
    assert desk.reverse(references=named) == "00"
    assert desk.balance == (10_000, 1_000)


def test_a_reversal_before_its_increment_buries_that_too() -> None:
    """The increment has not come, its transaction has: that is reversed, and the increment raises nothing."""
    desk = Desk()
    desk.authorize(1_000)
    key_of_increment = key(desk.number + 2)
    desk.reverse(references=(reference_of_message(key_of_increment), reference_of_network(SALE)))
    assert desk.increment(500) == "00"
    assert desk.balance == (10_000, 0)


def test_a_refund_that_was_taken_back_before_it_came_credits_nothing() -> None:
    desk = Desk()
    desk.reverse()
    assert desk.authorize(700, kind="refund") == "00"
    assert desk.balance == (10_000, 0)


def test_an_increment_that_was_given_up_raises_nothing() -> None:
    desk = Desk()
    desk.authorize(1_000)
    key_of_increment = key(desk.number + 2)
    desk.reverse("unheard", references=(reference_of_message(key_of_increment),))
    assert desk.increment(500) == "00"
    assert desk.balance == (10_000, 1_000)
    assert (desk.sale().approved_minor, desk.sale().reversed_minor) == (1_500, 500)
    assert (desk.sale().remainder_minor, desk.status()) == (1_000, "pending")


def test_several_captures_draw_on_one_hold() -> None:
    desk = Desk()
    desk.authorize(1_000)
    desk.present(300, final=False)
    assert (desk.balance, desk.status()) == ((9_700, 700), "partially_cleared")
    desk.present(700, final=False)
    assert (desk.balance, desk.status()) == ((9_000, 0), "cleared")


@pytest.mark.parametrize(("parts", "code"), [({"currency": "USD"}, "12"), ({"amount_minor": 0}, "13")])
def test_a_presentment_that_cannot_be_posted(parts: dict[str, Any], code: str) -> None:
    desk = Desk()
    command = desk._named(
        Present, SALE, kind="purchase", arn=None, sequence=1, **({"amount_minor": 5} | _sale() | parts)
    )
    assert desk.code(command) == code
    assert desk.balance == (10_000, 0)


def test_reversal_of_unpresented_refund_debits_it_once() -> None:
    desk = Desk()
    assert desk.authorize(700, kind="refund") == "00"
    assert [desk.reverse(), desk.reverse()] == ["00", "00"]
    assert (desk.balance, desk.status()) == ((10_000, 0), "reversed")


# What is said of refunds under one network id; the balance and the hold afterwards.
REFUNDS: dict[str, tuple[list[tuple[Any, ...]], tuple[int, int]]] = {
    "authorized": ([("refund", 700)], (10_700, 0)),
    "authorized, presented": ([("refund", 700), ("give", 700)], (10_700, 0)),
    "authorized, presented for less": ([("refund", 700), ("give", 600)], (10_700, 0)),
    "authorized, presented for more": ([("refund", 700), ("give", 900)], (10_900, 0)),
    "authorized, presented in two parts": ([("refund", 700), ("give", 300), ("give", 400)], (10_700, 0)),
    "authorized, presented twice in full": ([("refund", 700), ("give", 700), ("give", 700)], (11_400, 0)),
    "authorized, two parts and more": (
        [("refund", 700), ("give", 300), ("give", 400), ("give", 200)],
        (10_900, 0),
    ),
    "presented twice": ([("give", 300), ("give", 200)], (10_500, 0)),
    "two authorized, both presented": (
        [("refund", 300), ("refund", 200), ("give", 300), ("give", 200)],
        (10_500, 0),
    ),
    "two authorized, both presented the other way": (
        [("refund", 300), ("refund", 200), ("give", 200), ("give", 300)],
        (10_500, 0),
    ),
    "taken back": ([("refund", 700), ("reverse",)], (10_000, 0)),
    "taken back in part": ([("refund", 700), ("lower", 300)], (10_300, 0)),
    "taken back in part twice": ([("refund", 700), ("lower", 300), ("lower", 300)], (10_300, 0)),
    "taken back to more than it is": ([("refund", 700), ("lower", 900)], (10_700, 0)),
    "taken back, then presented": ([("refund", 700), ("reverse",), ("give", 700)], (10_700, 0)),
    "taken back, then presented for less": ([("refund", 700), ("reverse",), ("give", 300)], (10_300, 0)),
    "taken back, then presented for more": ([("refund", 700), ("reverse",), ("give", 900)], (10_900, 0)),
    "reversed before it came": ([("reverse",), ("refund", 700)], (10_000, 0)),
    "presented, then reversed": ([("refund", 700), ("give", 700), ("reverse",)], (10_700, 0)),
    "presented in part, then reversed": ([("refund", 700), ("give", 300), ("reverse",)], (10_300, 0)),
    "presented unasked, then reversed": ([("give", 700), ("reverse",)], (10_700, 0)),
    "captured in part, refunded, captured": (
        [("authorize", 6_000), ("part", 3_000), ("give", 1_000), ("present", 3_000)],
        (5_000, 0),
    ),
    "captured in part, refund authorized, captured": (
        [("authorize", 6_000), ("part", 3_000), ("refund", 1_000), ("give", 1_000), ("present", 3_000)],
        (5_000, 0),
    ),
    "captured, refunded, then reversed late": (
        [("authorize", 1_000), ("present", 1_000), ("refund", 400), ("reverse",)],
        (9_400, 0),
    ),
    "held, refunded, then reversed late": (
        [("authorize", 1_000), ("refund", 400), ("reverse",)],
        (10_400, 0),
    ),
    "held, refunded, then raised": (
        [("authorize", 1_000), ("refund", 400), ("increment", 500)],
        (10_400, 1_500),
    ),
    "held, refunded, then advised": (
        [("authorize", 1_000), ("refund", 400), ("advise", 700)],
        (10_400, 700),
    ),
    "held, a second attempt declined, captured": (
        [("authorize", 6_000), ("authorize", 9_000), ("present", 6_000)],
        (4_000, 0),
    ),
}


@pytest.mark.parametrize("name", REFUNDS)
def test_refunds_of_one_network_id(name: str) -> None:
    said, balance = REFUNDS[name]
    desk = Desk()
    for verb, *amounts in said:
        assert getattr(desk, verb)(*amounts) in {"00", "51"}
    assert desk.balance == balance
    assert not any(each.kind == "force_post" for each in desk.known)


# A decline, its reversal and the network's own approval, in any order; an advice after captures.
ADVICES: dict[str, tuple[list[tuple[Any, ...]], tuple[int, int]]] = {
    "declined, reversed, advised": ([("authorize", 50_000), ("reverse",), ("advise", 50_000)], (10_000, 0)),
    "declined, advised, reversed": ([("authorize", 50_000), ("advise", 50_000), ("reverse",)], (10_000, 0)),
    "reversed, declined, advised": ([("reverse",), ("authorize", 50_000), ("advise", 50_000)], (10_000, 0)),
    "reversed, advised": ([("reverse",), ("advise", 50_000)], (10_000, 0)),
    "advised, reversed": ([("advise", 50_000), ("reverse",)], (10_000, 0)),
    "declined, lowered, advised": ([("authorize", 50_000), ("lower", 1), ("advise", 9)], (10_000, 9)),
    "captured in part, advised": ([("authorize", 6_000), ("part", 3_000), ("advise", 5_000)], (7_000, 2_000)),
    "captured in part, advised of that": (
        [("authorize", 6_000), ("part", 3_000), ("advise", 3_000)],
        (7_000, 0),
    ),
    "captured in part, advised of less": (
        [("authorize", 6_000), ("part", 3_000), ("advise", 1_000)],
        (7_000, 0),
    ),
    "captured in part, lapsed, advised": (
        [("authorize", 6_000), ("part", 3_000), ("expire",), ("advise", 5_000)],
        (7_000, 2_000),
    ),
    "captured in part, lapsed, advised of that": (
        [("authorize", 6_000), ("part", 3_000), ("expire",), ("advise", 3_000)],
        (7_000, 0),
    ),
    "declined, forced, advised": (
        [("authorize", 11_000), ("present", 11_000), ("advise", 11_000)],
        (-1_000, 0),
    ),
    "forced, advised of more": ([("present", 3_000), ("advise", 5_000)], (7_000, 2_000)),
    "forced, advised of a decline": ([("present", 3_000), ("advise_no", 3_000)], (7_000, 0)),
}


@pytest.mark.parametrize("name", ADVICES)
def test_advices(name: str) -> None:
    said, balance = ADVICES[name]
    desk = Desk()
    for verb, *amounts in said:
        getattr(desk, verb)(*amounts)
    assert desk.balance == balance


def in_both_modes(table: Mapping[str, Any]) -> list[Any]:
    """The rows of ``table`` in managed and gateway mode; nothing lapses in gateway mode."""
    return [
        pytest.param(name, gateway, id=f"{name}-{'gateway' if gateway else 'managed'}")
        for name in table
        for gateway in (False, True)
        if not (gateway and "expire" in str(table[name]))
    ]


# What is said, with the days between; then the day's amount and count, each day, as they were last seen.
DAYS: dict[str, tuple[list[tuple[Any, ...]], list[tuple[int, int]]]] = {
    "raised next day, reversed": (
        [("authorize", 1_000), ("day",), ("increment", 500), ("reverse",)],
        [(1_000, 1), (0, 0)],
    ),
    "raised next day, lowered by less": (
        [("authorize", 1_000), ("day",), ("increment", 500), ("lower", 1_200)],
        [(1_000, 1), (200, 0)],
    ),
    "raised next day, lowered by more": (
        [("authorize", 1_000), ("day",), ("increment", 500), ("lower", 300)],
        [(1_000, 1), (0, 0)],
    ),
    "raised next day, lowered, reversed": (
        [("authorize", 1_000), ("day",), ("increment", 500), ("lower", 1_200), ("reverse",)],
        [(1_000, 1), (0, 0)],
    ),
    "raised next day, another sale, reversed": (
        [("authorize", 1_000), ("day",), ("increment", 500), ("authorize", 70, "b"), ("reverse",)],
        [(1_000, 1), (70, 1)],
    ),
    "raised on two days, the older one undone": (
        [("authorize", 1_000), ("day",), ("increment", 500), ("day",), ("increment", 40), ("undo", 2)],
        [(1_000, 1), (500, 0), (40, 0)],
    ),
    "raised on two days, the newer one undone": (
        [("authorize", 1_000), ("day",), ("increment", 500), ("day",), ("increment", 40), ("undo", 3)],
        [(1_000, 1), (500, 0), (0, 0)],
    ),
    "declined, advised next day, reversed": (
        [("authorize", 50_000), ("day",), ("advise", 50_000), ("reverse",)],
        [(0, 0), (0, 0)],
    ),
    "raised next day, advised of less": (
        [("authorize", 1_000), ("day",), ("increment", 500), ("advise", 1_100)],
        [(1_000, 1), (100, 0)],
    ),
    "lapsed, advised of more next day, reversed": (
        [("authorize", 1_000), ("expire",), ("day",), ("advise", 1_500), ("reverse",)],
        [(1_000, 1), (0, 0)],
    ),
}


@pytest.mark.parametrize(("name", "gateway"), in_both_modes(DAYS))
def test_counters_are_given_back_on_the_day_they_were_counted(name: str, gateway: bool) -> None:
    said, days = DAYS[name]
    desk = a_desk(gateway)
    seen = []
    for verb, *amounts in said:
        if verb == "day":
            seen.append((desk.card.day_amount_minor, desk.card.day_count))
            desk.now_ms += DAY_MS
            continue
        getattr(desk, verb)(*amounts)
    assert [*seen, (desk.card.day_amount_minor, desk.card.day_count)] == days


def a_desk(gateway: bool) -> Desk:
    from tests.engine.relay import Relay

    return Relay(card=card(account_id=None, controls=(PerTxnCap(40_000),))) if gateway else Desk()


# The cap, the sale, and each increment with its answer; at 10.00 each.
CAPPED: dict[str, list[tuple[Any, ...]]] = {
    "total within the cap": [("authorize", 800, "00"), ("increment", 200, "00")],
    "total above the cap": [("authorize", 800, "00"), ("increment", 201, "61"), ("increment", 200, "00")],
    "several increments": [("authorize", 800, "00"), ("increment", 100, "00"), ("increment", 101, "61")],
    "after a partial reversal": [("authorize", 800, "00"), ("lower", 300, "00"), ("increment", 700, "00")],
    "after a partial capture": [("authorize", 800, "00"), ("part", 300, "00"), ("increment", 201, "61")],
    "after a lapse": [("authorize", 800, "00"), ("expire",), ("increment", 201, "61")],
    "of a sale that is over": [("authorize", 800, "00"), ("present", 800, "00"), ("increment", 900, "00")],
}


@pytest.mark.parametrize(("name", "gateway"), in_both_modes(CAPPED))
def test_per_txn_cap_judges_the_total_of_the_authorization(name: str, gateway: bool) -> None:
    desk = a_desk(gateway)
    desk.card.controls = (PerTxnCap(1_000),)
    for verb, *arguments in CAPPED[name]:
        if verb == "expire":
            desk.expire()
            continue
        amount, code = arguments
        assert getattr(desk, verb)(amount) == code


def test_per_txn_cap_shows_total_and_limit() -> None:
    desk = Desk()
    desk.card.controls = (PerTxnCap(1_000),)
    desk.authorize(800)
    assert desk.increment(300) == "61"
    decision = desk.done[-1].outcome
    assert isinstance(decision, Decision)
    assert step_view(decision.trace[-1]) == {
        "rule": "per_txn_cap",
        "outcome": "fail",
        "observed": "11.00",
        "limit": "10.00",
    }


@pytest.mark.parametrize(("days", "held_minor"), [(29, 0), (30, 1_000)])
def test_tombstone_expires_after_30_days(days: int, held_minor: int) -> None:
    desk = Desk()
    desk.reverse()
    desk.now_ms += days * DAY_MS
    assert desk.authorize(1_000) == "00"
    assert desk.account.held_minor == held_minor


def test_reversal_forgets_few_of_many_expired_tombstones() -> None:
    desk = Desk()
    desk.card.tombstones = {f"n:{number}": NOW_MS for number in range(20_000)}
    desk.now_ms += 30 * DAY_MS
    desk.reverse()
    assert len(desk.card.tombstones) == 20_001 - TOMBSTONES_FORGOTTEN_MAX
    assert has_tombstone(desk.card, (reference_of_network(SALE),), desk.now_ms)


def test_a_hold_past_its_expiry_stops_counting_without_being_swept() -> None:
    desk = Desk()
    desk.authorize(9_000)
    desk.now_ms += 8 * DAY_MS
    assert desk.authorize(10_000, "later") == "00"
    assert desk.balance == (10_000, 10_000)


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
    desk = a_desk(gateway)
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


AMOUNTS = st.integers(min_value=1, max_value=6_000)
SALES = st.sampled_from(["a", "b", "c"])
MOVES = st.one_of(
    st.tuples(st.just("authorize"), AMOUNTS, SALES),
    st.tuples(st.just("increment"), AMOUNTS, SALES),
    st.tuples(st.just("present"), AMOUNTS, SALES),
    st.tuples(st.just("advise"), AMOUNTS, SALES),
    st.tuples(st.just("reverse"), SALES),
    st.tuples(st.just("lower"), AMOUNTS, SALES),
    st.tuples(st.just("part"), AMOUNTS, SALES),
    st.tuples(st.just("expire"), SALES),
    st.tuples(st.just("wait"), st.integers(min_value=1, max_value=9)),
)


@settings(max_examples=400, deadline=None)
@given(st.lists(MOVES, min_size=1, max_size=40))
def test_any_life_keeps_the_books(moves: list[tuple[Any, ...]]) -> None:
    desk = Desk()
    used: set[str] = set()
    for verb, *arguments in moves:
        before = desk.account.version
        if verb == "wait":
            desk.now_ms += arguments[0] * DAY_MS
            continue
        if verb == "authorize" and arguments[1] in used:
            # A network gives each sale an id of its own.
            continue
        used.add(arguments[-1])
        if verb == "lower":
            desk.reverse(arguments[1], remaining_minor=arguments[0])
        elif verb == "part":
            desk.present(*arguments, final=False)
        else:
            getattr(desk, verb)(*arguments)
        assert desk.account.version - before in {0, 1}
        the_books_are_right(desk)
    the_holds_moved_legally(desk)
    every_decision_can_be_made_again(desk)


def the_books_are_right(desk: Desk) -> None:
    posted = sum(
        each.amount_minor if each.direction == "credit" else -each.amount_minor for each in desk.entries
    )
    assert desk.account.posted_minor == 10_000 + posted
    assert desk.account.held_minor == sum(hold.amount_minor for hold in desk.account.holds.values())
    assert all(hold.amount_minor > 0 for hold in desk.account.holds.values())
    assert min(desk.card.day_count, desk.card.day_amount_minor) >= 0
    for authorization in desk.known:
        assert (
            min(authorization.approved_minor, authorization.cleared_minor, authorization.reversed_minor) >= 0
        )
        hold = desk.account.holds.get(authorization.hold_id or "")
        if hold is not None:
            assert hold.amount_minor == authorization.remainder_minor
            assert hold.authorization_id == authorization.id


def the_holds_moved_legally(desk: Desk) -> None:
    states: dict[str, str] = {}
    for effect in desk.effects:
        if isinstance(effect, HoldPlaced):
            assert effect.hold.id not in states
            states[effect.hold.id] = "held"
        elif isinstance(effect, HoldClosed | HoldLapsed):
            state = effect.state if isinstance(effect, HoldClosed) else "lapsed"
            assert state in TRANSITIONS[states[effect.hold_id]]
            states[effect.hold_id] = state
    assert {id_ for id_, state in states.items() if state == "held"} == desk.account.holds.keys()


def every_decision_can_be_made_again(desk: Desk) -> None:
    for executed in desk.done:
        if isinstance(executed.outcome, Decision) and executed.inputs is not None:
            stored = msgspec.json.decode(msgspec.json.encode(executed.inputs), type=Inputs)
            assert stored == executed.inputs


@settings(max_examples=200, deadline=None)
@given(AMOUNTS, AMOUNTS, st.integers(min_value=0, max_value=9))
def test_an_increments_decision_can_be_made_again(first: int, delta: int, days: int) -> None:
    desk = Desk()
    desk.authorize(first)
    desk.now_ms += days * DAY_MS
    number = desk._next()
    command = authorize(
        number,
        amount_minor=delta,
        wire=wire(number, network_txn_id=SALE),
        references=(reference_of_network(SALE),),
    )
    executed = desk.do(command)
    again = msgspec.json.decode(msgspec.json.encode(command), type=Authorize)
    seen = msgspec.json.decode(msgspec.json.encode(executed.inputs), type=Inputs)
    assert msgspec.json.encode(decide(again, seen)) == msgspec.json.encode(executed.outcome)


def test_the_account_of_the_tests_is_the_cards() -> None:
    assert card().account_id == ACCOUNT
