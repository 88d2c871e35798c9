"""The nine card controls: one file for each subject, one ``check`` for each control.

A control is a tagged value; ``check`` is total and returns the trace step of its rule. Several controls of
one kind must all pass.
"""

from __future__ import annotations

from typing import Any, Final

from engine.controls.channel import ChannelAllow, ChannelDeny
from engine.controls.control_input import ControlInput
from engine.controls.country import CountryAllow, CountryDeny
from engine.controls.mcc import MccAllow, MccDeny
from engine.controls.per_day_amount_cap import PerDayAmountCap
from engine.controls.per_day_cap import PerDayCap
from engine.controls.per_txn_cap import PerTxnCap
from engine.money import format_minor

Control = (
    MccAllow
    | MccDeny
    | CountryAllow
    | CountryDeny
    | ChannelAllow
    | ChannelDeny
    | PerTxnCap
    | PerDayCap
    | PerDayAmountCap
)

PRECEDENCE: Final = (
    MccAllow,
    MccDeny,
    CountryAllow,
    CountryDeny,
    ChannelAllow,
    ChannelDeny,
    PerTxnCap,
    PerDayCap,
    PerDayAmountCap,
)
"""The order in which controls are evaluated, that of the decline reasons."""


def in_precedence(controls: tuple[Control, ...]) -> tuple[Control, ...]:
    """``controls`` in the order of evaluation; equal kinds keep the order their owner gave them."""
    return tuple(sorted(controls, key=lambda control: PRECEDENCE.index(type(control))))


def control_view(control: Control) -> dict[str, Any]:
    """The public representation (spec 2.3): ``kind`` and ``values``, ``amount`` (a decimal string) or
    ``count``."""
    kind: str = control.__struct_config__.tag  # type: ignore[assignment]
    if isinstance(control, PerTxnCap | PerDayAmountCap):
        return {"kind": kind, "amount": format_minor(control.amount_minor)}
    if isinstance(control, PerDayCap):
        return {"kind": kind, "count": control.count}
    return {"kind": kind, "values": list(control.values)}


__all__ = [
    "PRECEDENCE",
    "ChannelAllow",
    "ChannelDeny",
    "Control",
    "ControlInput",
    "CountryAllow",
    "CountryDeny",
    "MccAllow",
    "MccDeny",
    "PerDayAmountCap",
    "PerDayCap",
    "PerTxnCap",
    "control_view",
    "in_precedence",
]
