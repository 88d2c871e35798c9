"""Card controls: their outcomes, their order, and the lists that name them."""

from __future__ import annotations

from typing import Any, ClassVar, get_args

import msgspec
import pytest

from actors.journal.decoding import decode_controls
from api.cards.controls import ControlInput as ApiControlInput
from api.cards.controls import ControlView
from engine.controls import (
    AMOUNT_KINDS,
    KINDS,
    PRECEDENCE,
    ChannelAllow,
    ChannelDeny,
    Control,
    ControlInput,
    CountryAllow,
    CountryDeny,
    MccAllow,
    MccDeny,
    PerDayAmountCap,
    PerDayCap,
    PerTxnCap,
    control_view,
    in_precedence,
    kind_of,
)
from engine.decision.decide import authorize
from engine.decline import REASONS
from engine.trace import TraceStep, verdict
from engine.webhooks.schemas import CONTROL
from tests.support.engine import build

SPEND = ControlInput(
    amount_minor=1_000, mcc="5411", country="IE", channel="pos", day_count=2, day_amount_minor=3_000
)


def spend(**parts: Any) -> ControlInput:
    return msgspec.structs.replace(SPEND, **parts)


EVERY: list[tuple[Control, str, str, dict[str, Any]]] = [
    (MccAllow(("5411",)), "mcc_allow", "mcc_not_allowed", {"kind": "mcc_allow", "values": ["5411"]}),
    (MccDeny(("5411",)), "mcc_deny", "mcc_not_allowed", {"kind": "mcc_deny", "values": ["5411"]}),
    (
        CountryAllow(("IE",)),
        "country_allow",
        "country_not_allowed",
        {"kind": "country_allow", "values": ["IE"]},
    ),
    (CountryDeny(("IE",)), "country_deny", "country_not_allowed", {"kind": "country_deny", "values": ["IE"]}),
    (
        ChannelAllow(("pos",)),
        "channel_allow",
        "channel_not_allowed",
        {"kind": "channel_allow", "values": ["pos"]},
    ),
    (
        ChannelDeny(("pos",)),
        "channel_deny",
        "channel_not_allowed",
        {"kind": "channel_deny", "values": ["pos"]},
    ),
    (PerTxnCap(5), "per_txn_cap", "per_txn_cap_exceeded", {"kind": "per_txn_cap", "amount": "0.05"}),
    (PerDayCap(5), "per_day_cap", "per_day_count_exceeded", {"kind": "per_day_cap", "count": 5}),
    (
        PerDayAmountCap(500),
        "per_day_amount_cap",
        "per_day_amount_exceeded",
        {"kind": "per_day_amount_cap", "amount": "5.00"},
    ),
]


@pytest.mark.parametrize(
    ("control", "control_input", "step"),
    [
        (MccAllow(("5411", "5812")), SPEND, TraceStep("mcc_allow", "pass", "5411")),
        (MccAllow(("5812",)), SPEND, TraceStep("mcc_allow", "fail", "5411")),
        (MccAllow(()), SPEND, TraceStep("mcc_allow", "fail", "5411")),
        (MccDeny(("5812",)), SPEND, TraceStep("mcc_deny", "pass", "5411")),
        (MccDeny(()), SPEND, TraceStep("mcc_deny", "pass", "5411")),
        (MccDeny(("5812", "5411")), SPEND, TraceStep("mcc_deny", "fail", "5411")),
        (CountryAllow(("IE",)), SPEND, TraceStep("country_allow", "pass", "IE")),
        (CountryAllow(("DE",)), SPEND, TraceStep("country_allow", "fail", "IE")),
        (CountryAllow(("IE",)), spend(country="  "), TraceStep("country_allow", "fail", "  ")),
        (CountryDeny(("DE",)), SPEND, TraceStep("country_deny", "pass", "IE")),
        (CountryDeny(("IE",)), SPEND, TraceStep("country_deny", "fail", "IE")),
        (ChannelAllow(("pos", "atm")), SPEND, TraceStep("channel_allow", "pass", "pos")),
        (ChannelAllow(("ecommerce",)), SPEND, TraceStep("channel_allow", "fail", "pos")),
        (ChannelDeny(("moto",)), SPEND, TraceStep("channel_deny", "pass", "pos")),
        (ChannelDeny(("pos",)), SPEND, TraceStep("channel_deny", "fail", "pos")),
        (PerTxnCap(1_000), SPEND, TraceStep("per_txn_cap", "pass", 1_000, 1_000)),
        (PerTxnCap(999), SPEND, TraceStep("per_txn_cap", "fail", 1_000, 999)),
        (PerTxnCap(0), SPEND, TraceStep("per_txn_cap", "fail", 1_000, 0)),
        (PerDayCap(3), SPEND, TraceStep("per_day_cap", "pass", 2, 3)),
        (PerDayCap(2), SPEND, TraceStep("per_day_cap", "fail", 2, 2)),
        (PerDayCap(0), spend(day_count=0), TraceStep("per_day_cap", "fail", 0, 0)),
        (PerDayAmountCap(4_000), SPEND, TraceStep("per_day_amount_cap", "pass", 3_000, 4_000)),
        (PerDayAmountCap(3_999), SPEND, TraceStep("per_day_amount_cap", "fail", 3_000, 3_999)),
        (PerDayAmountCap(0), spend(day_amount_minor=0), TraceStep("per_day_amount_cap", "fail", 0, 0)),
        # A cap below the usage of the day fails (case 31 of ops/docs/WIRE.md).
        (PerDayAmountCap(100), SPEND, TraceStep("per_day_amount_cap", "fail", 3_000, 100)),
        (PerDayCap(1), spend(day_count=9), TraceStep("per_day_cap", "fail", 9, 1)),
    ],
)
def test_outcome_and_trace_step(control: Control, control_input: ControlInput, step: TraceStep) -> None:
    assert control.check(control_input) == step


@pytest.mark.parametrize(("control", "rule", "reason", "view"), EVERY, ids=[row[1] for row in EVERY])
def test_rule_reason_view_and_encoding(
    control: Control, rule: str, reason: str, view: dict[str, Any]
) -> None:
    assert control.check(SPEND).rule == rule
    assert control.reason == reason
    assert control_view(control) == view
    assert decode_controls(msgspec.json.encode((control,))) == (control,)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(control), type=Control) == control


def test_precedence_is_the_order_of_the_reasons() -> None:
    assert [type(row[0]) for row in EVERY] == list(PRECEDENCE)
    places = [REASONS.index(row[2]) for row in EVERY]
    assert places == sorted(places)


def test_controls_of_one_kind_keep_their_order() -> None:
    given = (PerDayCap(9), PerTxnCap(2), MccDeny(("2",)), PerTxnCap(1), MccAllow(("1",)))
    assert in_precedence(given) == (
        MccAllow(("1",)),
        MccDeny(("2",)),
        PerTxnCap(2),
        PerTxnCap(1),
        PerDayCap(9),
    )


def test_every_list_of_kinds_agrees_with_the_table() -> None:
    """The models of requests have literals of their own; the other lists derive from the table."""
    models = get_args(get_args(ApiControlInput)[0])
    requested = [kind for model in models for kind in get_args(model.model_fields["kind"].annotation)]
    assert sorted(requested) == sorted(KINDS)
    assert CONTROL["properties"]["kind"]["enum"] == list(KINDS)
    assert ControlView.model_json_schema()["properties"]["kind"]["enum"] == list(KINDS)
    assert {"per_txn_cap", "per_day_amount_cap"} == AMOUNT_KINDS


@pytest.mark.parametrize("row", EVERY, ids=[row[1] for row in EVERY])
def test_view_has_only_members_of_the_public_schemas(row: tuple[Control, str, str, dict[str, Any]]) -> None:
    members = control_view(row[0]).keys()
    assert members <= CONTROL["properties"].keys()
    assert members <= ControlView.model_fields.keys()


class MerchantAllow(msgspec.Struct, frozen=True, tag_field="kind", tag="merchant_allow"):
    """A control of a kind that the engine does not have."""

    values: tuple[str, ...]
    amount_minor: int
    reason: ClassVar[str] = "mcc_not_allowed"
    skips_increments: ClassVar[bool] = False

    def check(self, control_input: ControlInput) -> TraceStep:
        return TraceStep("merchant_allow", verdict(control_input.mcc in self.values), control_input.mcc)


def test_new_kind_needs_no_change_of_rules_and_views() -> None:
    control: Any = MerchantAllow(("5812",), 500)
    assert kind_of(control) == "merchant_allow"
    assert control_view(control) == {"kind": "merchant_allow", "values": ["5812"], "amount": "5.00"}
    decision = authorize(build.authorize(), build.inputs(controls=(control,)))
    assert (decision.reason, decision.trace[-1].rule) == ("mcc_not_allowed", "merchant_allow")
