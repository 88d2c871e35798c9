"""Histories lived twice: against a naive model, and case by case."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.backtests import unaffected
from engine.backtests.entry import CompactEntry, Entry, JournalEntry
from engine.backtests.history import History
from engine.backtests.order import CommandQueues
from engine.backtests.plan import Change, ControlsChange, Plan, Scope
from engine.backtests.recorded_run import LeftOutError, MismatchError
from engine.backtests.tally import Tally
from engine.commands import Present, Reverse, reference_of_id, reference_of_message
from engine.controls import Control, MccDeny, PerDayAmountCap, PerDayCap, PerTxnCap
from engine.decision.delegation import EndpointResult
from engine.ids import Derived, derive
from engine.instant import DAY_MS
from tests.support.engine import build
from tests.support.engine.build import CARD, NOW_MS, PROGRAMME
from tests.support.engine.journal import Owner
from tests.support.engine.naive_backtest import Limits, Move, lived

ACCOUNT = derive(CARD, Derived.ACCOUNT)
FAR_MS = NOW_MS + 1_000 * DAY_MS


def plan(change: Change, from_ms: int = NOW_MS, **parts: Any) -> Plan:
    """A back-test of the whole programme."""
    return msgspec.structs.replace(Plan(Scope("programme", PROGRAMME), from_ms, FAR_MS, change), **parts)


def adding(*controls: Control) -> Change:
    return Change(ControlsChange(add=controls))


def removing(*kinds: str) -> Change:
    return Change(ControlsChange(remove=kinds))


def live(owner: Owner, plan: Plan) -> tuple[Tally, History]:
    """Live the journal of ``owner``: with compact rows, and with their full texts, which gives the same."""
    tally, history = live_entries(owner, plan, owner.entries)
    flips = list(history.flips)
    compact, of_compact = live_entries(owner, plan, owner.stored())
    assert (compact, of_compact.flips) == (tally, flips)
    return tally, history


def live_entries(owner: Owner, plan: Plan, entries: Sequence[JournalEntry]) -> tuple[Tally, History]:
    """Live ``entries``, read in slices of two commands."""
    history = History(plan, owner.programmes)
    queues = CommandQueues(owner.cards)
    while True:
        for entry in queues.ready(history):
            history.live(entry)
        starving = queues.starving()
        if not starving:
            return history.tally, history
        for id_ in starving:
            rest = [e for e in entries if e.card_id == id_ and e.seq > queues.last_seq(id_)]
            queues.add(id_, rest[:2], len(rest) < 2)


def owner_of(*controls: Control, funds_minor: int = 10_000, **config: Any) -> Owner:
    """The owner of an active card with money."""
    owner = Owner(**config)
    owner.issue(build.create_card(id=CARD, controls=controls))
    if funds_minor:
        owner.do(build.load(owner.number(), amount_minor=funds_minor))
    return owner


def buy(owner: Owner, amount_minor: int, **parts: Any) -> Any:
    """A purchase; returns its command."""
    number = owner.number()
    command = build.authorize(number, amount_minor=amount_minor, **parts)
    owner.decide(command)
    return command


def about(owner: Owner, sale: Any) -> dict[str, Any]:
    """The fields of a message about ``sale``."""
    number = owner.number()
    return {
        "id": build.an_id(0x70_0000 + number),
        "command_key": build.key(0x70_0000 + number),
        "card_id": sale.card_id,
        "fingerprint": build.key(number),
        "wire": build.wire(number),
        "references": (reference_of_message(sale.command_key),),
    }


def present(owner: Owner, sale: Any, amount_minor: int | None = None, **parts: Any) -> None:
    owner.do(
        Present(
            **about(owner, sale),
            kind="purchase",
            amount_minor=sale.amount_minor if amount_minor is None else amount_minor,
            currency="EUR",
            mcc=sale.mcc,
            merchant_name="Shop",
            merchant_country="IE",
            arn=None,
            sequence=1,
            **parts,
        )
    )


def reverse(owner: Owner, sale: Any, **parts: Any) -> None:
    owner.do(Reverse(**about(owner, sale), **parts))


def turned(history: History) -> dict[str, str]:
    """The direction of each flip, by the id of its command."""
    return {flip.id: flip.direction for flip in history.flips}


# --- against the naive model ------------------------------------------------------------------------------

MCCS = ("5411", "5812", "7995")
limits = st.builds(
    Limits,
    st.frozensets(st.sampled_from(MCCS), max_size=2),
    st.none() | st.integers(100, 4_000),
    st.none() | st.integers(0, 4),
    st.none() | st.integers(500, 9_000),
)
steps = st.tuples(
    st.sampled_from(("buy", "buy", "buy", "present", "reverse", "load")),
    st.integers(1, 4_000),
    st.sampled_from(MCCS),
    st.sampled_from((0, 1, 60, 600, 24 * 60, 8 * 24 * 60)),
    st.integers(0, 9),
)


def controls_of(limits: Limits) -> tuple[Control, ...]:
    """The engine's controls for ``limits``."""
    controls: list[Control] = []
    if limits.refused_mccs:
        controls.append(MccDeny(tuple(sorted(limits.refused_mccs))))
    for cap, value in (
        (PerTxnCap, limits.per_sale),
        (PerDayCap, limits.per_day_count),
        (PerDayAmountCap, limits.per_day_amount),
    ):
        if value is not None:
            controls.append(cap(value))
    return tuple(controls)


@settings(max_examples=100, deadline=None)
@given(st.lists(steps, min_size=1, max_size=40), limits, limits, st.booleans(), st.integers(0, 3))
def test_both_runs_decide_as_a_naive_model(
    history: list[Any], before: Limits, after: Limits, assume_presented: bool, begin_days: int
) -> None:
    compare(history, before, after, assume_presented, begin_days)


def test_long_histories_are_decided_as_by_a_naive_model() -> None:
    """Histories in which money is short, holds lapse, and limits change."""
    flips = 0
    for seed in range(150):
        dice = random.Random(seed)
        history = [("load", dice.randint(5_000, 20_000), "", 0, 0)]
        history += [random_step(dice) for _ in range(60)]
        before, after = random_limits(dice), random_limits(dice)
        flips += compare(history, before, after, dice.random() < 0.5, dice.choice((0, 0, 5)))
    assert flips > 1_000


def random_step(dice: random.Random) -> Any:
    kind = dice.choice(("buy", "buy", "buy", "present", "reverse", "load"))
    amount = dice.randint(500, 2_000) if kind == "load" else dice.randint(100, 4_000)
    minutes = dice.choice((0, 60, 600, 24 * 60, 3 * 24 * 60)) if dice.random() < 0.9 else 8 * 24 * 60
    return kind, amount, dice.choice(MCCS), minutes, dice.randint(0, 9)


def random_limits(dice: random.Random) -> Limits:
    return Limits(
        frozenset(dice.sample(MCCS, dice.choice((0, 0, 1)))),
        dice.choice((None, 1_500, 3_000)),
        dice.choice((None, None, 1, 3)),
        dice.choice((None, None, 5_000)),
    )


def compare(
    history: list[Any], before: Limits, after: Limits, assume_presented: bool, begin_days: int
) -> int:
    """Compare a back-test with the naive model; returns the number of flips."""
    owner = owner_of(*controls_of(before), funds_minor=0, timezone="UTC")
    moves: list[Move] = []
    sales: dict[int, Any] = {}
    done: set[int] = set()
    for kind, amount, mcc, minutes, pick in history:
        owner.now_ms += minutes * 60_000
        open_sales = [number for number in sales if number not in done]
        if kind == "load":
            owner.do(build.load(owner.number(), amount_minor=amount))
            moves.append(Move("load", owner.now_ms, amount=amount))
        elif kind == "buy":
            command = build.authorize(owner.number(), amount_minor=amount, mcc=mcc)
            if owner.decide(command).reason is None:
                sales[len(moves)] = command
            moves.append(Move("buy", owner.now_ms, len(moves), amount, mcc))
        elif open_sales:
            number = open_sales[pick % len(open_sales)]
            done.add(number)
            (present if kind == "present" else reverse)(owner, sales[number])
            moves.append(Move(kind, owner.now_ms, number))
    kinds = ("mcc_deny", "per_txn_cap", "per_day_cap", "per_day_amount_cap")
    change = Change(ControlsChange(kinds, controls_of(after)))
    from_ms = NOW_MS + begin_days * DAY_MS
    tally, run = live(owner, plan(change, from_ms, assume_presented=assume_presented))
    expected = lived(moves, before, after, from_ms, 7, assume_presented)
    old, new = expected
    assert (tally.decisions, tally.mismatches) == (len(old), 0)
    assert (tally.before.approved, tally.after.approved) == (sum(old.values()), sum(new.values()))
    flips = {number: old[number] for number in old if old[number] != new[number]}
    ids = [e for e in owner.entries if e.kind == "authorize" and e.at_ms >= from_ms]
    buys = [move.sale for move in moves if move.kind == "buy" and move.at_ms >= from_ms]
    by_sale = dict(zip((msgspec.json.decode(e.command)["id"] for e in ids), buys, strict=True))
    assert {by_sale[flip.id]: flip.direction == "approved_to_declined" for flip in run.flips} == flips
    return len(flips)


# --- later messages ---------------------------------------------------------------------------------------


def test_sale_declined_by_the_change_has_no_later_messages() -> None:
    """Its increment, presentment and reversal are not sent; the money stays for a later purchase."""
    owner = owner_of()
    bet = buy(owner, 6_000, mcc="7995")
    number = owner.number()
    raised = build.authorize(number, amount_minor=1_000, references=(reference_of_id(bet.id),))
    assert owner.decide(raised).reason is None
    present(owner, bet, 7_000)
    food = buy(owner, 9_000)
    tally, history = live(owner, plan(adding(MccDeny(("7995",)))))
    assert turned(history) == {bet.id: "approved_to_declined", food.id: "declined_to_approved"}
    assert (tally.before.decisions, tally.after.decisions, tally.after.not_sent) == (3, 2, 1)
    assert (tally.before.approved_minor, tally.after.approved_minor) == (7_000, 9_000)


@pytest.mark.parametrize(("assume_presented", "later"), [(True, "insufficient_funds"), (False, None)])
def test_assumed_fate_of_a_newly_approved_purchase(assume_presented: bool, later: str | None) -> None:
    """Presented, its money is gone; lapsed, it is back after the expiry of the hold."""
    owner = owner_of(PerTxnCap(5_000))
    first = buy(owner, 8_000)
    owner.now_ms += 8 * DAY_MS
    second = buy(owner, 4_000)
    change = removing("per_txn_cap")
    _, history = live(owner, plan(change, assume_presented=assume_presented))
    expected = {first.id: "declined_to_approved"}
    if later:
        expected[second.id] = "approved_to_declined"
    assert turned(history) == expected
    reasons = [msgspec.json.decode(flip.after)["reason"] for flip in history.flips[1:]]
    assert reasons == ([later] if later else [])


def test_reversal_releases_a_purchase_that_only_the_change_approves() -> None:
    owner = owner_of(PerTxnCap(5_000))
    first = buy(owner, 8_000)
    reverse(owner, first)
    second = buy(owner, 4_000)
    _, history = live(owner, plan(removing("per_txn_cap")))
    assert turned(history) == {first.id: "declined_to_approved"}
    assert second.id not in turned(history)


def test_force_post_after_a_decline_captures_the_newly_approved_purchase() -> None:
    """The presented amount is posted once, not beside the assumed presentment."""
    owner = owner_of(PerTxnCap(5_000))
    first = buy(owner, 6_000)
    present(owner, first)
    buy(owner, 4_000)
    tally, history = live(owner, plan(removing("per_txn_cap")))
    assert turned(history) == {first.id: "declined_to_approved"}
    assert tally.after.approved_minor == 10_000


def test_partial_approval_for_less_is_presented_for_less() -> None:
    """100.00 and a cap of 30.00 that is in force on the first purchase only."""
    owner = owner_of(MccDeny(("7995",)))
    bet = buy(owner, 5_000, mcc="7995")
    part = buy(owner, 9_000, partial_allowed=True)
    present(owner, part)
    last = buy(owner, 1_000)
    tally, history = live(owner, plan(removing("mcc_deny")))
    # The bet takes 50.00, so the partial approval is for 50.00 and presented so; nothing is left.
    assert turned(history) == {bet.id: "declined_to_approved", last.id: "approved_to_declined"}
    assert (tally.before.approved_minor, tally.after.approved_minor) == (10_000, 10_000)


def test_partial_approval_for_more_is_presented_for_more() -> None:
    owner = owner_of()
    bet = buy(owner, 5_000, mcc="7995")
    part = buy(owner, 9_000, partial_allowed=True)
    present(owner, bet)
    present(owner, part, 5_000)
    last = buy(owner, 1_000)
    assert owner.account is not None
    assert owner.account.posted_minor == 0
    tally, history = live(owner, plan(adding(MccDeny(("7995",)))))
    assert turned(history) == {bet.id: "approved_to_declined", last.id: "declined_to_approved"}
    assert tally.after.approved_minor == 10_000


def test_window_begins_in_the_middle_of_a_history() -> None:
    """Earlier decisions are lived and not counted, and the change does not apply to them."""
    owner = owner_of(timezone="UTC")
    buy(owner, 1_000)
    owner.now_ms += 60_000
    begin = owner.now_ms
    second = buy(owner, 1_000)
    tally, history = live(owner, plan(adding(PerDayCap(1)), from_ms=begin))
    assert turned(history) == {second.id: "approved_to_declined"}
    assert (tally.decisions, tally.before.decisions, tally.after.decisions) == (1, 1, 1)


def test_scope_of_one_card_leaves_the_other_cards_of_the_account_unchanged() -> None:
    """But the money that its decline leaves is spent by the other card."""
    owner = owner_of()
    second = build.create_card(2, account_id=ACCOUNT, opens_account=False)
    owner.issue(second)
    lost = buy(owner, 8_000, mcc="7995")
    gained = buy(owner, 5_000, mcc="7995", card_id=second.id)
    _, history = live(owner, plan(adding(MccDeny(("7995",))), scope=Scope("card", CARD)))
    assert turned(history) == {lost.id: "approved_to_declined", gained.id: "declined_to_approved"}


def test_replacement_continues_the_counters_of_the_second_run() -> None:
    owner = owner_of(timezone="UTC")
    buy(owner, 1_000)
    bet = buy(owner, 1_000, mcc="7995")
    replacement = build.replace_card(owner.number(), card_id=CARD)
    owner.do(replacement)
    owner.do(build.set_cardholder_status(owner.number(), card_id=replacement.id, active=True))
    third = buy(owner, 1_000, card_id=replacement.id)
    fourth = buy(owner, 1_000, card_id=replacement.id)
    _, history = live(owner, plan(adding(MccDeny(("7995",)), PerDayCap(2))))
    assert turned(history) == {bet.id: "approved_to_declined", fourth.id: "approved_to_declined"}
    assert third.id not in turned(history)


def test_change_of_controls_in_the_history_stays_below_the_change() -> None:
    owner = owner_of(PerTxnCap(5_000))
    owner.do(build.change_card(owner.number(), controls=(PerTxnCap(9_000),)))
    first = buy(owner, 8_000)
    _, history = live(owner, plan(adding(PerTxnCap(7_000))))
    assert turned(history) == {first.id: "approved_to_declined"}
    _, history = live(owner, plan(adding(PerTxnCap(8_000))))
    assert turned(history) == {}


def test_endpoint_that_was_not_called_is_assumed_to_approve() -> None:
    owner = owner_of(
        MccDeny(("7995",)), decisioning="delegated", decision_url="https://decisions.example.com/"
    )
    bet = build.authorize(owner.number(), mcc="7995")
    owner.decide(bet)
    refused = build.authorize(owner.number())
    owner.decide(refused, EndpointResult("declined"))
    _, history = live(owner, plan(removing("mcc_deny")))
    assert turned(history) == {bet.id: "declined_to_approved"}
    assert msgspec.json.decode(history.flips[0].after)["decided_by"] == "programme"


def test_programme_versions_of_the_history_are_used() -> None:
    owner = owner_of()
    buy(owner, 1_000)
    owner.now_ms += 1_000
    owner.change_programme(status="suspended")
    owner.now_ms += 1_000
    buy(owner, 1_000)
    tally, _ = live(owner, plan(adding(PerTxnCap(9_999))))
    assert (tally.before.approved, tally.before.declined, tally.mismatches) == (1, 1, 0)


def test_flip_names_rule_amount_and_both_decisions() -> None:
    owner = owner_of(timezone="UTC")
    sale = buy(owner, 1_200, mcc="5812")
    tally, history = live(owner, plan(adding(PerTxnCap(1_000))))
    [flip] = history.flips
    assert (flip.id, flip.authorization_id, flip.card_id) == (sale.id, sale.id, CARD)
    assert (flip.rule, flip.amount_minor, flip.mcc, flip.day) == ("per_txn_cap", 1_200, "5812", "2026-11-21")
    assert flip.before == owner.entries[-1].decision
    assert msgspec.json.decode(flip.after)["trace"][-1] == ["per_txn_cap", "fail", 1_200, 1_000]
    for groups in (tally.by_rule, tally.by_mcc, tally.by_day):
        [flips] = groups.values()
        assert (flips.approved_to_declined.count, flips.declined_to_approved.count) == (1, 0)


# --- the second run without short cuts --------------------------------------------------------------------


def test_like_commands_give_the_second_run_the_state_that_execution_gives(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Parts, tips, refunds, increments, lapsed and expiring holds, on two cards of one account."""
    alike = {"is_captured_alike": 0, "is_approved_alike": 0}
    owners = [random_owner(random.Random(seed)) for seed in range(60)]

    def counting(name: str) -> Any:
        function = getattr(unaffected, name)

        def counted(*arguments: Any) -> bool:
            said = bool(function(*arguments))
            alike[name] += said
            return said

        return counted

    for name in alike:
        monkeypatch.setattr(f"engine.backtests.history.{name}", counting(name))
    found = [second_state(owner) for owner in owners]
    for name in alike:
        monkeypatch.setattr(f"engine.backtests.history.{name}", lambda *_: False)
    assert [second_state(owner) for owner in owners] == found
    assert min(alike.values()) > 100


def random_owner(dice: random.Random) -> Owner:
    owner = owner_of(funds_minor=dice.randint(20_000, 60_000), timezone="UTC", hold_expiry_days=2)
    owner.issue(build.create_card(2, account_id=ACCOUNT, opens_account=False))
    cards = list(owner.cards)
    sales: list[Any] = []
    for _ in range(60):
        owner.now_ms += dice.choice((1, 60_000, 6 * 3_600_000, 2 * DAY_MS))
        kind = dice.choice(("buy", "buy", "buy", "present", "present", "part", "increment", "reverse"))
        if kind == "buy" or not sales:
            partial = dice.random() < 0.2
            amount = dice.randint(100, 2_000)
            sales.append(buy(owner, amount, card_id=dice.choice(cards), partial_allowed=partial))
            continue
        sale = dice.choice(sales[-6:])
        if kind == "increment":
            more = {"references": (reference_of_message(sale.command_key),), "card_id": sale.card_id}
            owner.decide(build.authorize(owner.number(), amount_minor=100, **more))
        elif kind == "reverse":
            reverse(owner, sale)
        elif kind == "part":
            present(owner, sale, dice.randint(1, 300), final=False)
        else:
            tip = dice.choice((0, 0, 0, -50, 70))
            present(owner, sale, sale.amount_minor + tip)
    return owner


def second_state(owner: Owner) -> Any:
    """The flips, and the state of the second run at the end."""
    _, history = live_entries(owner, plan(adding(PerTxnCap(1_800))), owner.stored())
    state = history.changed_state
    if state is None:
        return None
    cards = {id_: (each.card, list(each.known)) for id_, each in state.cards.items()}
    return history.flips, state.account, cards


# --- histories that are not lived -------------------------------------------------------------------------


def changed(entry: Entry, **parts: Any) -> Entry:
    return msgspec.structs.replace(entry, **parts)


def test_decision_that_is_not_reproduced_is_a_mismatch() -> None:
    owner = owner_of()
    sale = buy(owner, 1_000)
    last = owner.entries[-1]
    assert last.decision is not None
    owner.entries[-1] = changed(last, decision=last.decision.replace('"risk_score":0', '"risk_score":1'))
    with pytest.raises(MismatchError, match=sale.id):
        live(owner, plan(adding()))


def test_missing_load_is_a_mismatch() -> None:
    owner = owner_of()
    buy(owner, 1_000)
    owner.entries = [e for e in owner.entries if e.kind != "load"]
    owner.entries = [changed(e, seq=number) for number, e in enumerate(owner.entries, start=1)]
    with pytest.raises(MismatchError):
        live(owner, plan(adding()))


def test_commands_under_earlier_rules_are_left_out() -> None:
    owner = owner_of()
    present(owner, buy(owner, 1_000))
    last = owner.entries[-1]
    assert last.decision is not None
    owner.entries[-1] = changed(last, decision=last.decision.replace('"rules":2', '"rules":1'))
    with pytest.raises(LeftOutError):
        live(owner, plan(adding()))


def test_inputs_of_the_first_layout_are_lived() -> None:
    owner = owner_of()
    buy(owner, 1_000)
    last = owner.entries[-1]
    assert last.inputs is not None
    fields = msgspec.json.decode(last.inputs)[1:27]
    owner.entries[-1] = changed(last, inputs=msgspec.json.encode(fields).decode())
    tally, _ = live(owner, plan(adding()))
    assert (tally.decisions, tally.mismatches) == (1, 0)


def test_compact_decision_that_is_not_reproduced_is_a_mismatch() -> None:
    owner = owner_of()
    sale = buy(owner, 1_000)
    stored = owner.stored()
    last = stored[-1]
    assert isinstance(last, CompactEntry)
    assert last.row.decision is not None
    row = last.row._replace(decision=last.row.decision.replace("1000]", "1001]"))
    assert row != last.row
    wrong = msgspec.structs.replace(last, row=row)
    with pytest.raises(MismatchError, match=sale.id):
        live_entries(owner, plan(adding()), [*stored[:-1], wrong])


def test_compact_decision_without_its_configuration_is_a_mismatch() -> None:
    owner = owner_of()
    sale = buy(owner, 1_000)
    stored = owner.stored()
    last = stored[-1]
    assert isinstance(last, CompactEntry)
    missing = msgspec.structs.replace(last, configuration=None)
    with pytest.raises(MismatchError, match=sale.id):
        live_entries(owner, plan(adding()), [*stored[:-1], missing])


def test_compact_decision_under_another_programme_version_is_lived() -> None:
    """A host may decide by a version that is older than the row."""
    owner = owner_of()
    buy(owner, 1_000)
    late = owner.stored()
    owner.now_ms -= 1
    owner.change_programme(hold_expiry_days=9)
    assert isinstance(late[-1], CompactEntry)
    tally, _ = live_entries(owner, plan(adding()), late)
    assert (tally.decisions, tally.mismatches) == (1, 0)
