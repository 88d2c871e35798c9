"""The decision: the rule that names the reason, the approved amount, and the expiry of the hold."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from engine.cards.authorization import OriginalView
from engine.commands import Authorize
from engine.controls import (
    ChannelAllow,
    ChannelDeny,
    Control,
    CountryAllow,
    CountryDeny,
    MccAllow,
    MccDeny,
    PerDayAmountCap,
    PerDayCap,
    PerTxnCap,
)
from engine.decision.decide import Decision, authorize, counts_as_cvv2_failure, decision_view
from engine.decision.delegation import EndpointResult
from engine.decision.inputs import RULES, Inputs
from engine.decision.recorded import decode_inputs
from engine.decision.trace_view import AMOUNT_RULES, step_view
from engine.decline import REASONS, RESPONSE_CODES, response_code
from engine.ids import approval_code
from engine.instant import DAY_MS, to_ms
from engine.limits import CVV2_FAILURES_PER_DAY
from engine.programmes.programme import TRAVEL_MCCS, hold_expiry_days
from engine.trace import TraceStep
from tests.support.engine.build import NOW_MS, an_id
from tests.support.engine.build import authorize as spend
from tests.support.engine.build import inputs as seen

TODAY = "2026-11-21"
DE39 = {
    "invalid_message": "30",
    "card_not_found": "14",
    "card_lost": "41",
    "card_stolen": "43",
    "card_terminated": "46",
    "card_unactivated": "78",
    "card_suspended": "62",
    "card_expired": "54",
    "expiry_mismatch": "54",
    "cryptogram_invalid": "05",
    "cardholder_blocked": "57",
    "programme_inactive": "57",
    "cvv2_mismatch": "N7",
    "cvv1_mismatch": "05",
    "pin_not_supported": "86",
    "pin_incorrect": "55",
    "authentication_failed": "63",
    "invalid_amount": "13",
    "currency_not_supported": "12",
    "mcc_not_allowed": "57",
    "country_not_allowed": "62",
    "channel_not_allowed": "57",
    "per_txn_cap_exceeded": "61",
    "per_day_count_exceeded": "65",
    "per_day_amount_exceeded": "61",
    "rule_declined": "05",
    "authentication_required": "65",
    "risk_blocked": "59",
    "insufficient_funds": "51",
    "programme_declined": "05",
    "stand_in_declined": "05",
    "decision_deadline_exceeded": "91",
    "system_error": "96",
}
"""The response code of each reason, in order of precedence."""

# An e-commerce sale on a card with five wrong CVV2 values, stored before commands had the outcomes of
# the checks of expiry, PIN and chip data.
RECORDED_COMMAND = (
    '{"command":"authorize","id":"00100001-0000-7000-8000-0000000000a7","command_key":"AAAAAAAAAAAAAA'
    'AAAAAAAQ==","card_id":"000000c1-0000-7000-8000-0000000000a7","fingerprint":"AAAAAAAAAAAAAAAAAAAA'
    'AQ==","wire":{"acquirer_id":"00000000001","stan":"000001","transmitted_at":"1121100000","rrn":"6'
    '32510000001"},"amount_minor":1000,"currency":"EUR","mcc":"5411","merchant_name":"Corner Shop","m'
    'erchant_country":"IE","channel":"ecommerce","entry_mode":"ecommerce","authentication":"valid"}'
)
RECORDED_INPUTS = (
    '[1795255200000,0,"active",true,"visa","EUR",2029,11,[{"kind":"mcc_deny","values":["7995"]},{"kin'
    'd":"per_day_cap","count":5}],"2026-11-21",2,0,5,1,"active","managed","UTC",7,1,10000,0,[],null,"'
    'platform",null,null]'
)
RECORDED_DECISION = (
    '{"decision":"approved","reason":null,"response_code":"00","approval_code":"000000","approved_min'
    'or":1000,"decided_by":"platform","risk_score":30,"risk_action":"allow","day":"2026-11-21","hold_'
    'expires_ms":1795860000000,"trace":[["card_state","pass","active","active"],["card_expiry","pass"'
    ',"2026-11-21","2029-11"],["cardholder","pass",null,null],["programme","pass","active","active"],'
    '["cvv2","skip",null,null],["authentication","pass","valid","valid"],["currency","pass","EUR","EU'
    'R"],["mcc_deny","pass","5411",null],["per_day_cap","pass",2,5],["risk","pass",30,90],["funds","p'
    'ass",10000,1000]]}'
)


def decide(command: Authorize | None = None, **parts: Any) -> Decision:
    return authorize(command or spend(), seen(**parts))


def rules(decision: Decision) -> list[str]:
    return [step.rule for step in decision.trace]


# --- precedence ---

EVERY_CONTROL: tuple[Control, ...] = (
    MccAllow(("5411",)),
    MccDeny(("7995",)),
    CountryAllow(("IE",)),
    CountryDeny(("KP",)),
    ChannelAllow(("pos",)),
    ChannelDeny(("moto",)),
    PerTxnCap(100),
    PerDayCap(1),
    PerDayAmountCap(100),
)
WORST = spend(
    amount_minor=600_000,
    currency="USD",
    mcc="7995",
    merchant_country="KP",
    channel="moto",
    entry_mode="magstripe",
    expiry="mismatch",
    cvv2="mismatch",
    cvv1="mismatch",
    chip="refused",
    chip_tags=("9F26=****",),
    pin="refused",
    authentication="malformed",
)
WORST_SEEN: dict[str, Any] = {
    "card_state": "lost",
    "exp_year": 2026,
    "exp_month": 10,
    "cardholder_active": False,
    "programme_status": "suspended",
    "controls": EVERY_CONTROL,
    "day": TODAY,
    "day_count": 1,
    "day_amount_minor": 100,
    "cvv2_failures": 2,
    "posted_minor": 0,
}
LADDER: list[tuple[str, str, dict[str, Any], dict[str, Any]]] = [
    # the first failing rule, its reason, and the changes of command and inputs that make it pass
    ("card_state", "card_lost", {}, {"card_state": "active"}),
    ("card_expiry", "card_expired", {}, {"exp_month": 11}),
    ("expiry", "expiry_mismatch", {"expiry": "match"}, {}),
    ("chip_data", "cryptogram_invalid", {"chip": "valid"}, {}),
    ("cardholder", "cardholder_blocked", {}, {"cardholder_active": True}),
    ("programme", "programme_inactive", {}, {"programme_status": "active"}),
    ("cvv2", "cvv2_mismatch", {"cvv2": "match"}, {}),
    ("cvv1", "cvv1_mismatch", {"cvv1": "match"}, {}),
    ("pin", "pin_not_supported", {"pin": "invalid"}, {}),
    ("pin", "pin_incorrect", {"pin": "valid"}, {}),
    ("authentication", "authentication_failed", {"authentication": "present"}, {}),
    ("currency", "currency_not_supported", {"currency": "EUR"}, {}),
    ("mcc_allow", "mcc_not_allowed", {}, {"controls": EVERY_CONTROL[1:]}),
    ("mcc_deny", "mcc_not_allowed", {}, {"controls": EVERY_CONTROL[2:]}),
    ("country_allow", "country_not_allowed", {}, {"controls": EVERY_CONTROL[3:]}),
    ("country_deny", "country_not_allowed", {}, {"controls": EVERY_CONTROL[4:]}),
    ("channel_allow", "channel_not_allowed", {}, {"controls": EVERY_CONTROL[5:]}),
    ("channel_deny", "channel_not_allowed", {}, {"controls": EVERY_CONTROL[6:]}),
    ("per_txn_cap", "per_txn_cap_exceeded", {}, {"controls": EVERY_CONTROL[7:]}),
    ("per_day_cap", "per_day_count_exceeded", {}, {"controls": EVERY_CONTROL[8:]}),
    ("per_day_amount_cap", "per_day_amount_exceeded", {}, {"controls": ()}),
    ("risk", "risk_blocked", {"channel": "pos"}, {"cvv2_failures": 0}),
    ("funds", "insufficient_funds", {}, {"posted_minor": 600_000}),
]


@pytest.mark.parametrize("network", ["visa", "mastercard"])
def test_first_failing_rule_names_the_reason(network: str) -> None:
    """All rules fail at first; each step repairs one of them."""
    command, inputs_given = WORST, WORST_SEEN | {"network": network}
    passed: list[str] = []
    for rule, reason, asked, fixed in LADDER:
        decision = decide(command, **inputs_given)
        assert (decision.decision, decision.reason) == ("declined", reason)
        expected = "05" if (reason, network) == ("cvv2_mismatch", "mastercard") else DE39[reason]
        assert decision.response_code == expected
        assert decision.trace[-1].rule == rule
        assert [step.outcome for step in decision.trace] == ["pass"] * (len(decision.trace) - 1) + ["fail"]
        assert [step.rule for step in decision.trace if step.rule in passed] == [
            each for each in passed if each in rules(decision)
        ]
        assert (decision.approved_minor, decision.approval_code, decision.hold_expires_ms) == (0, None, None)
        if rule not in passed:
            passed.append(rule)
        command, inputs_given = msgspec.structs.replace(command, **asked), inputs_given | fixed
    decision = decide(command, **inputs_given)
    assert (decision.decision, decision.reason, decision.response_code) == ("approved", None, "00")
    assert all(step.outcome == "pass" for step in decision.trace)


def test_ladder_covers_every_reason_in_order_of_precedence() -> None:
    assert RESPONSE_CODES == DE39
    assert list(REASONS) == list(DE39)
    reasons = [reason for _, reason, _, _ in LADDER]
    places = [REASONS.index(reason) for reason in reasons]
    assert places == sorted(places)
    of_others = {"invalid_message", "card_not_found", "invalid_amount", "programme_declined"}
    of_others |= {"stand_in_declined", "decision_deadline_exceeded", "system_error"}
    of_states = {"card_stolen", "card_terminated", "card_unactivated", "card_suspended"}
    # tests/engine/rules/test_evaluate.py
    of_issuers = {"rule_declined", "authentication_required"}
    assert set(REASONS) - set(reasons) == of_others | of_states | of_issuers


@pytest.mark.parametrize("reason", REASONS)
@pytest.mark.parametrize("network", ["visa", "mastercard"])
def test_response_codes(reason: str, network: str) -> None:
    differing = {("mastercard", "cvv2_mismatch"): "05", ("visa", "authentication_required"): "1A"}
    assert response_code(reason, network) == differing.get((network, reason), DE39[reason])


@pytest.mark.parametrize("state", ["unactivated", "suspended", "terminated", "lost", "stolen"])
def test_inactive_card_is_declined(state: str) -> None:
    decision = decide(card_state=state)
    assert (decision.reason, decision.response_code) == (f"card_{state}", DE39[f"card_{state}"])
    assert decision.trace == (TraceStep("card_state", "fail", state, "active"),)


# --- single rules ---


@pytest.mark.parametrize(
    ("exp", "zone", "at", "expired"),
    [
        ((2026, 11), "UTC", "2026-11-30T23:59:59.999+00:00", False),
        ((2026, 11), "UTC", "2026-12-01T00:00:00+00:00", True),
        ((2026, 12), "UTC", "2026-12-31T23:59:59+00:00", False),
        ((2026, 12), "UTC", "2027-01-01T00:00:00+00:00", True),
        ((2026, 11), "America/New_York", "2026-12-01T04:59:59+00:00", False),
        ((2026, 11), "America/New_York", "2026-12-01T05:00:00+00:00", True),
        ((2026, 11), "Asia/Tokyo", "2026-11-30T15:00:00+00:00", True),
        ((2025, 12), "UTC", "2026-01-15T00:00:00+00:00", True),
    ],
)
def test_card_is_valid_through_the_last_day_of_its_expiry_month(
    exp: tuple[int, int], zone: str, at: str, expired: bool
) -> None:
    now_ms = to_ms(datetime.fromisoformat(at))
    decision = decide(exp_year=exp[0], exp_month=exp[1], timezone=zone, now_ms=now_ms)
    assert (decision.reason == "card_expired") == expired


def test_expiry_is_compared_with_the_counting_day() -> None:
    """The clock is in November again; the card's day is in December already."""
    decision = decide(exp_year=2026, exp_month=11, day="2026-12-01")
    assert decision.reason == "card_expired"
    assert decision.trace[-1] == TraceStep("card_expiry", "fail", "2026-12-01", "2026-11")


@pytest.mark.parametrize(
    ("cvv2", "failures", "day", "reason"),
    [
        ("absent", 0, TODAY, None),
        ("absent", 99, TODAY, None),
        ("match", 0, TODAY, None),
        ("match", CVV2_FAILURES_PER_DAY - 1, TODAY, None),
        ("match", CVV2_FAILURES_PER_DAY, TODAY, "cvv2_mismatch"),
        ("match", CVV2_FAILURES_PER_DAY, "2026-11-20", None),
        ("mismatch", 0, TODAY, "cvv2_mismatch"),
        ("mismatch", 0, "", "cvv2_mismatch"),
    ],
)
def test_cvv2(cvv2: Any, failures: int, day: str, reason: str | None) -> None:
    decision = decide(spend(cvv2=cvv2), cvv2_failures=failures, day=day)
    assert decision.reason == reason
    step = next(step for step in decision.trace if step.rule == "cvv2")
    assert step.outcome == ("skip" if cvv2 == "absent" else "fail" if reason else "pass")


@pytest.mark.parametrize("amount_minor", [0, 1_000])
@pytest.mark.parametrize(
    ("failures", "cvv2", "reason"),
    [
        (CVV2_FAILURES_PER_DAY - 1, "missing", None),
        (CVV2_FAILURES_PER_DAY, "missing", "cvv2_mismatch"),
        (CVV2_FAILURES_PER_DAY, "match", "cvv2_mismatch"),
        (CVV2_FAILURES_PER_DAY, "absent", None),
    ],
)
def test_locked_cvv2_declines_messages_without_one(
    amount_minor: int, failures: int, cvv2: Any, reason: str | None
) -> None:
    command = spend(amount_minor=amount_minor, cvv2=cvv2)
    decision = decide(command, cvv2_failures=failures, day=TODAY)
    assert decision.reason == reason
    assert not counts_as_cvv2_failure(seen(cvv2_failures=failures, day=TODAY), decision)
    assert decide(command, cvv2_failures=failures, day="2026-11-20").reason is None


def test_locked_cvv2_does_not_affect_increments() -> None:
    original = OriginalView(an_id(7), 1_000, 0, 0, 1_000, 0, True)
    inputs_given = {"cvv2_failures": CVV2_FAILURES_PER_DAY, "day": TODAY, "original": original}
    assert decide(spend(cvv2="missing"), **inputs_given).reason is None
    assert decide(spend(cvv2="mismatch"), **inputs_given).reason == "cvv2_mismatch"


@pytest.mark.parametrize(
    ("expiry", "reason", "outcome"),
    [("absent", None, []), ("match", None, ["pass"]), ("mismatch", "expiry_mismatch", ["fail"])],
)
@pytest.mark.parametrize("amount_minor", [0, 1_000])
def test_expiry_on_the_message_must_be_that_of_the_card(
    amount_minor: int, expiry: Any, reason: str | None, outcome: list[str]
) -> None:
    decision = decide(spend(amount_minor=amount_minor, expiry=expiry))
    assert decision.reason == reason
    assert [step.outcome for step in decision.trace if step.rule == "expiry"] == outcome


@pytest.mark.parametrize("kind", ["purchase", "refund"])
@pytest.mark.parametrize(
    ("pin", "reason", "outcome"),
    [
        ("absent", None, []),
        ("ignored", None, ["skip"]),
        ("refused", "pin_not_supported", ["fail"]),
        ("valid", None, ["pass"]),
        ("invalid", "pin_incorrect", ["fail"]),
    ],
)
def test_wrong_or_unverifiable_pin_block_is_declined(
    kind: Any, pin: Any, reason: str | None, outcome: list[str]
) -> None:
    decision = decide(spend(kind=kind, pin=pin))
    assert decision.reason == reason
    assert [step.outcome for step in decision.trace if step.rule == "pin"] == outcome


@pytest.mark.parametrize("kind", ["purchase", "refund"])
@pytest.mark.parametrize(
    ("chip", "reason", "step"),
    [
        ("absent", None, None),
        ("present", None, TraceStep("chip_data", "skip", "82=1980 9F26=****")),
        ("valid", None, TraceStep("chip_data", "pass", "82=1980 9F26=****", "valid")),
        ("invalid", "cryptogram_invalid", TraceStep("chip_data", "fail", "82=1980 9F26=****", "valid")),
        ("refused", "cryptogram_invalid", TraceStep("chip_data", "fail", "82=1980 9F26=****", "valid")),
    ],
)
def test_chip_data_are_shown_by_tag(kind: Any, chip: Any, reason: str | None, step: TraceStep | None) -> None:
    tags = () if chip == "absent" else ("82=1980", "9F26=****")
    decision = decide(spend(kind=kind, chip=chip, chip_tags=tags))
    assert decision.reason == reason
    assert [each for each in decision.trace if each.rule == "chip_data"] == ([] if step is None else [step])


def test_chip_data_recorded_without_tags_replay_to_the_stored_trace() -> None:
    assert TraceStep("chip_data", "skip", "present") in decide(spend(chip="present")).trace
    assert "chip_data" not in rules(decide(spend(chip="present", kind="refund")))


@pytest.mark.parametrize(
    ("cvv1", "failures", "reason", "outcome"),
    [
        ("absent", 0, None, []),
        ("absent", CVV2_FAILURES_PER_DAY, None, []),
        ("match", 0, None, ["pass"]),
        ("match", CVV2_FAILURES_PER_DAY - 1, None, ["pass"]),
        ("match", CVV2_FAILURES_PER_DAY, "cvv1_mismatch", ["fail"]),
        ("mismatch", 0, "cvv1_mismatch", ["fail"]),
        ("mismatch", CVV2_FAILURES_PER_DAY, "cvv1_mismatch", ["fail"]),
    ],
)
def test_wrong_cvv1_is_declined_and_counts_toward_the_limit_of_the_day(
    cvv1: Any, failures: int, reason: str | None, outcome: list[str]
) -> None:
    before = {"cvv2_failures": failures, "day": TODAY}
    decision = decide(spend(cvv1=cvv1, entry_mode="chip"), **before)
    assert decision.reason == reason
    assert [step.outcome for step in decision.trace if step.rule == "cvv1"] == outcome
    counted = cvv1 == "mismatch" and failures < CVV2_FAILURES_PER_DAY
    assert counts_as_cvv2_failure(seen(**before), decision) == counted


def test_billing_address_is_present_and_not_verified() -> None:
    decision = decide(spend(address="present"))
    assert decision.reason is None
    assert TraceStep("address", "skip", "present") in decision.trace
    assert "address" not in rules(decide())


@pytest.mark.parametrize(
    ("authentication", "reason", "step"),
    [
        ("absent", None, TraceStep("authentication", "skip")),
        ("present", None, TraceStep("authentication", "pass", "present", "present")),
        (
            "malformed",
            "authentication_failed",
            TraceStep("authentication", "fail", "malformed", "present"),
        ),
        ("valid", None, TraceStep("authentication", "pass", "valid", "valid")),
        ("invalid", "authentication_failed", TraceStep("authentication", "fail", "invalid", "valid")),
    ],
)
def test_3ds(authentication: Any, reason: str | None, step: TraceStep) -> None:
    decision = decide(spend(authentication=authentication))
    assert decision.reason == reason
    assert next(each for each in decision.trace if each.rule == "authentication") == step


def test_decision_recorded_before_card_data_checks_replays() -> None:
    """The command, the inputs and the decision in their stored form."""
    command = msgspec.json.decode(RECORDED_COMMAND, type=Authorize)
    inputs_given = decode_inputs(RECORDED_INPUTS)
    assert msgspec.json.encode(authorize(command, inputs_given)).decode() == RECORDED_DECISION


def test_all_controls_of_one_kind_must_pass() -> None:
    controls = (PerTxnCap(5_000), PerTxnCap(500), PerTxnCap(50_000))
    decision = decide(controls=controls)
    assert decision.reason == "per_txn_cap_exceeded"
    assert decision.trace[-2:] == (
        TraceStep("per_txn_cap", "pass", 1_000, 5_000),
        TraceStep("per_txn_cap", "fail", 1_000, 500),
    )


@pytest.mark.parametrize(
    ("day", "counted"), [(TODAY, True), ("2026-11-20", False), ("", False), ("2026-11-22", True)]
)
def test_counters_of_a_past_day_do_not_count(day: str, counted: bool) -> None:
    decision = decide(controls=(PerDayCap(3),), day=day, day_count=3)
    assert (decision.reason == "per_day_count_exceeded") == counted
    decision = decide(controls=(PerDayAmountCap(1_500),), day=day, day_amount_minor=1_000)
    assert (decision.reason == "per_day_amount_exceeded") == counted


@pytest.mark.parametrize(
    ("day", "label"), [("", TODAY), (TODAY, TODAY), ("2026-11-20", TODAY), ("2026-11-22",) * 2]
)
def test_day_of_a_decision_never_goes_back(day: str, label: str) -> None:
    assert decide(day=day).day == label


# --- funds and amounts ---


@pytest.mark.parametrize(
    ("amount", "partial", "cap", "posted", "held", "approved", "code"),
    [
        (1_000, False, None, 1_000, 0, 1_000, "00"),
        (1_000, False, None, 999, 0, 0, "51"),
        (1_000, False, None, 1_500, 500, 1_000, "00"),
        (1_000, False, None, 1_500, 501, 0, "51"),
        (1_000, False, None, -1, 0, 0, "51"),
        (1_000, False, None, None, 0, 0, "51"),
        (1_000, True, None, 999, 0, 999, "10"),
        (1_000, True, None, 1_000, 0, 1_000, "00"),
        (1_000, True, 400, 1_000, 0, 400, "10"),
        (1_000, True, 400, 300, 0, 300, "10"),
        (1_000, True, 5_000, 9_000, 0, 1_000, "00"),
        (1_000, True, 0, 9_000, 0, 0, "51"),
        (1_000, True, None, 0, 0, 0, "51"),
        (1_000, True, None, 100, 200, 0, "51"),
        (1_000, True, None, None, 0, 0, "51"),
        (1_000, False, 400, 1_000, 0, 1_000, "00"),
    ],
)
def test_approved_amount(
    amount: int, partial: bool, cap: int | None, posted: int | None, held: int, approved: int, code: str
) -> None:
    command = spend(amount_minor=amount, partial_allowed=partial, partial_cap_minor=cap)
    decision = decide(command, posted_minor=posted, held_minor=held)
    assert (decision.approved_minor, decision.response_code) == (approved, code)
    assert decision.approval_code == (approval_code(command.id) if approved else None)
    assert decision.reason == (None if approved else "insufficient_funds")
    available = None if posted is None else posted - held
    assert decision.trace[-1] == TraceStep("funds", "pass" if approved else "fail", available, amount)


def test_gateway_mode_skips_the_funds_rule() -> None:
    decision = decide(programme_mode="gateway", posted_minor=None)
    assert (decision.approved_minor, decision.response_code) == (1_000, "00")
    assert decision.trace[-1] == TraceStep("funds", "skip")
    partial = spend(partial_allowed=True, partial_cap_minor=300)
    assert decide(partial, programme_mode="gateway").approved_minor == 300


# --- verification and refunds ---


def test_amount_0_is_an_account_verification() -> None:
    decision = decide(spend(amount_minor=0), posted_minor=None, controls=(*EVERY_CONTROL[:6], PerDayCap(0)))
    assert (decision.decision, decision.response_code, decision.approved_minor) == ("approved", "85", 0)
    assert (decision.approval_code, decision.hold_expires_ms) == (approval_code(spend().id), None)
    assert rules(decision) == [
        *("card_state", "card_expiry", "cardholder", "programme", "cvv2", "authentication", "currency")
    ]


@pytest.mark.parametrize(
    ("asked", "inputs_given", "reason"),
    [
        ({}, {"card_state": "suspended"}, "card_suspended"),
        ({}, {"exp_year": 2025}, "card_expired"),
        ({}, {"cardholder_active": False}, "cardholder_blocked"),
        ({}, {"programme_status": "closed"}, "programme_inactive"),
        ({"cvv2": "mismatch"}, {}, "cvv2_mismatch"),
        ({"authentication": "malformed"}, {}, "authentication_failed"),
        ({"currency": "USD"}, {}, "currency_not_supported"),
        ({"channel": "moto", "entry_mode": "magstripe", "mcc": "7995", "merchant_country": "KP"}, {}, None),
    ],
)
def test_rules_of_a_verification(
    asked: dict[str, Any], inputs_given: dict[str, Any], reason: str | None
) -> None:
    assert decide(spend(amount_minor=0, **asked), **inputs_given).reason == reason


@pytest.mark.parametrize("state", ["unactivated", "active", "suspended", "terminated", "lost", "stolen"])
def test_refund_is_allowed_in_any_card_state(state: str) -> None:
    inputs_given = WORST_SEEN | {"card_state": state}
    decision = decide(
        msgspec.structs.replace(
            WORST, kind="refund", currency="EUR", pin="absent", chip="absent", chip_tags=()
        ),
        **inputs_given,
    )
    assert (decision.decision, decision.response_code) == ("approved", "00")
    assert (decision.approved_minor, decision.hold_expires_ms) == (600_000, None)
    assert rules(decision) == ["amount", "currency", "funds"]


@pytest.mark.parametrize(
    ("asked", "inputs_given", "code", "reason"),
    [
        ({"amount_minor": 0}, {}, "13", "invalid_amount"),
        ({"amount_minor": 0, "currency": "USD"}, {}, "13", "invalid_amount"),
        ({"currency": "USD"}, {}, "12", "currency_not_supported"),
        ({"currency": "USD"}, {"posted_minor": None}, "12", "currency_not_supported"),
        ({}, {"posted_minor": None}, "51", "insufficient_funds"),
    ],
)
def test_invalid_refund_is_declined(
    asked: dict[str, Any], inputs_given: dict[str, Any], code: str, reason: str
) -> None:
    decision = decide(spend(kind="refund", **asked), **inputs_given)
    assert (decision.response_code, decision.reason, decision.approved_minor) == (code, reason, 0)


# --- how long it is held ---


@pytest.mark.parametrize(
    ("mcc", "travel"),
    [
        *(("3350", False), ("3351", True), ("3500", True), ("3501", True), ("3999", True), ("4000", False)),
        *(("7011", True), ("7512", True), ("7513", True), ("7514", False), ("4411", True), ("4410", False)),
        *(("5411", False), ("0000", False)),
    ],
)
def test_travel_merchants_have_longer_holds(mcc: str, travel: bool) -> None:
    assert (mcc in TRAVEL_MCCS) == travel
    assert decide(spend(mcc=mcc)).hold_expires_ms == NOW_MS + (30 if travel else 7) * DAY_MS
    assert decide(spend(mcc=mcc), hold_expiry_days=31).hold_expires_ms == NOW_MS + 31 * DAY_MS
    assert hold_expiry_days(1, mcc) == (30 if travel else 1)


def test_only_holds_have_an_expiry() -> None:
    assert decide(spend(amount_minor=0)).hold_expires_ms is None
    assert decide(spend(kind="refund")).hold_expires_ms is None
    assert decide(card_state="lost").hold_expires_ms is None


# --- risk and trace ---


@pytest.mark.parametrize(
    ("asked", "failures", "score", "action", "reason"),
    [
        ({}, 0, 0, "allow", None),
        ({"channel": "moto", "entry_mode": "magstripe"}, 0, 55, "review", None),
        ({"channel": "moto", "entry_mode": "magstripe", "mcc": "7995"}, 0, 85, "review", None),
        ({"channel": "moto", "entry_mode": "magstripe", "mcc": "7995"}, 1, 95, "block", "risk_blocked"),
    ],
)
def test_risk(asked: dict[str, Any], failures: int, score: int, action: str, reason: str | None) -> None:
    decision = decide(spend(**asked), day=TODAY, cvv2_failures=failures)
    assert (decision.risk_score, decision.risk_action, decision.reason) == (score, action, reason)
    assert decide(spend(**asked), day="2026-11-20", cvv2_failures=3).risk_score == (
        score if not failures else score - 10
    )


def test_trace_shows_observed_values_and_limits() -> None:
    controls = (MccDeny(("7995",)), PerDayCap(5), PerDayAmountCap(9_000))
    decision = decide(controls=controls, day=TODAY, day_count=2, day_amount_minor=2_500, held_minor=4_000)
    assert [step_view(step) for step in decision.trace] == [
        {"rule": "card_state", "outcome": "pass", "observed": "active", "limit": "active"},
        {"rule": "card_expiry", "outcome": "pass", "observed": TODAY, "limit": "2029-11"},
        {"rule": "cardholder", "outcome": "pass", "observed": None, "limit": None},
        {"rule": "programme", "outcome": "pass", "observed": "active", "limit": "active"},
        {"rule": "cvv2", "outcome": "skip", "observed": None, "limit": None},
        {"rule": "authentication", "outcome": "skip", "observed": None, "limit": None},
        {"rule": "currency", "outcome": "pass", "observed": "EUR", "limit": "EUR"},
        {"rule": "mcc_deny", "outcome": "pass", "observed": "5411", "limit": None},
        {"rule": "per_day_cap", "outcome": "pass", "observed": "2", "limit": "5"},
        {"rule": "per_day_amount_cap", "outcome": "pass", "observed": "25.00", "limit": "90.00"},
        {"rule": "risk", "outcome": "pass", "observed": "0", "limit": "90"},
        {"rule": "funds", "outcome": "pass", "observed": "60.00", "limit": "10.00"},
    ]
    assert {
        "amount",
        "funds",
        "per_txn_cap",
        "per_day_amount_cap",
        "stand_in_budget",
        "approved_amount",
    } == AMOUNT_RULES


def test_decision_replays_from_stored_command_and_inputs() -> None:
    command, inputs_given = spend(cvv2="match"), seen(controls=EVERY_CONTROL, day=TODAY, day_count=4)
    first = authorize(command, inputs_given)
    stored = msgspec.json.decode(msgspec.json.encode(inputs_given), type=Inputs)
    assert stored == inputs_given
    again = authorize(msgspec.json.decode(msgspec.json.encode(command), type=Authorize), stored)
    assert msgspec.json.encode(again) == msgspec.json.encode(first)
    assert datetime.fromtimestamp(NOW_MS / 1000, UTC).strftime("%Y-%m-%d") == TODAY


# The deciding party now, and whether the terminal takes a partial approval; the programme approved 0.10.
@pytest.mark.parametrize(
    ("decisioning", "partial_allowed", "code", "approved_minor", "decider"),
    [
        ("platform", False, "00", 1_000, "platform"),
        ("platform", True, "00", 1_000, "platform"),
        ("delegated", True, "10", 10, "programme"),
        ("delegated", False, "05", 0, "programme"),
    ],
)
def test_smaller_approval_limits_only_a_delegated_decision(
    decisioning: str, partial_allowed: bool, code: str, approved_minor: int, decider: str
) -> None:
    inputs_given = seen(decisioning=decisioning, endpoint_result=EndpointResult("approved", 10))
    decision = authorize(spend(amount_minor=1_000, partial_allowed=partial_allowed), inputs_given)
    assert (decision.response_code, decision.approved_minor) == (code, approved_minor)
    assert (decision.hold_expires_ms is not None, decision.decided_by) == (approved_minor > 0, decider)


def test_trace_of_a_refused_partial_approval_shows_both_amounts() -> None:
    inputs_given = seen(decisioning="delegated", endpoint_result=EndpointResult("approved", 10))
    decision = authorize(spend(amount_minor=1_000), inputs_given)
    assert [step_view(step) for step in decision.trace[-2:]] == [
        {
            "rule": "programme_decision",
            "outcome": "fail",
            "observed": "approved_for_less",
            "limit": "approved",
        },
        {"rule": "approved_amount", "outcome": "fail", "observed": "0.10", "limit": "10.00"},
    ]


OLD_CAPPED = OriginalView("a", 800, 0, 0, 800, 0, True)


@pytest.mark.parametrize(
    ("parts", "command", "code"),
    [
        ({"controls": (PerTxnCap(1_000),), "original": OLD_CAPPED}, {"amount_minor": 300}, "00"),
        (
            {"decisioning": "platform", "endpoint_result": EndpointResult("approved", 10)},
            {"amount_minor": 1_000},
            "10",
        ),
    ],
)
def test_inputs_of_rules_version_0_replay_under_version_0(
    parts: dict[str, Any], command: dict[str, Any], code: str
) -> None:
    """Inputs without a version of the rules give the decision of version 0."""
    stored = msgspec.json.encode(seen(rules=0, **parts))
    without = msgspec.json.encode(msgspec.json.decode(stored)[:26])
    inputs = msgspec.json.decode(without, type=Inputs)
    decision = authorize(spend(**command), inputs)
    assert decision.response_code == code
    assert decision != authorize(spend(**command), msgspec.structs.replace(inputs, rules=RULES))


def test_view_shows_reason_risk_and_trace() -> None:
    assert decision_view(decide(card_state="lost")) == {
        "decision": "declined",
        "decline_reason": "card_lost",
        "decided_by": "platform",
        "risk": {"score": 0, "action": "allow"},
        "trace": [{"rule": "card_state", "outcome": "fail", "observed": "lost", "limit": "active"}],
    }


def test_per_day_cap_skips_increments() -> None:
    original = OriginalView(an_id(7), 1_000, 0, 0, 1_000, 0, True)
    state: dict[str, Any] = {"controls": (PerDayCap(1),), "day": TODAY, "day_count": 1}
    assert decide(**state).reason == "per_day_count_exceeded"
    decision = decide(**state, original=original)
    assert decision.reason is None
    assert TraceStep("per_day_cap", "skip") in decision.trace
