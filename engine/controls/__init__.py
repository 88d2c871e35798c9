"""Card controls: limits on the purchases of a card, as its programme sets them.

``Control`` is the one table of kinds, in the order of evaluation, which is the order of the decline reasons.
The names of the kinds, the public view, the schema of events and the API's views derive from it;
``CONTRIBUTING.md`` ("A card control") lists the files of a new kind.

A control is a tagged value. Its ``check`` never raises; it returns the trace step of its rule. A card can
have several controls of one kind; all of them must pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, get_args

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

PRECEDENCE: Final[tuple[type[Control], ...]] = get_args(Control)
"""The classes of all controls in the order of evaluation."""


def kind_of(control: Control | type[Control]) -> str:
    """The name of a control's kind, which is also the name of its rule in traces."""
    return str(control.__struct_config__.tag)


KINDS: Final[Mapping[str, type[Control]]] = {kind_of(each): each for each in PRECEDENCE}
"""The classes of all controls by kind, in the order of evaluation."""

AMOUNT_KINDS: Final = frozenset(
    kind for kind, each in KINDS.items() if "amount_minor" in each.__struct_fields__
)
"""Kinds whose trace steps show amounts."""


def in_precedence(controls: tuple[Control, ...]) -> tuple[Control, ...]:
    """``controls`` in the order of evaluation; controls of one kind keep their order."""
    return tuple(sorted(controls, key=lambda control: PRECEDENCE.index(type(control))))


def control_view(control: Control) -> dict[str, Any]:
    """The public representation: ``kind`` and the fields, for example ``values``, ``count`` or ``amount`` (a
    decimal string for ``amount_minor``)."""
    view: dict[str, Any] = {"kind": kind_of(control)}
    for name in control.__struct_fields__:
        value = getattr(control, name)
        if name.endswith("_minor"):
            view[name.removesuffix("_minor")] = format_minor(value)
        else:
            view[name] = list(value) if isinstance(value, tuple) else value
    return view


__all__ = [
    "AMOUNT_KINDS",
    "KINDS",
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
    "kind_of",
]
