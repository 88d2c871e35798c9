"""Headroom: the largest amount of a purchase that the platform approves now, and the rule that binds it.

Each limit on amounts gives a bound. The decision itself (``authorize``) then decides at the least bound and
one minor unit above it, so the result cannot differ from the decision on a purchase.

Programmes that decide themselves, partial approvals and stand-in are outside: headroom is the whole amount
that passes the platform's own rules.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec

from engine.commands import Authorize
from engine.controls import PerDayAmountCap, PerDayCap, PerTxnCap, kind_of
from engine.decision import risk
from engine.decision.amounts import available_minor
from engine.decision.decide import Decision, authorize
from engine.decision.inputs import Inputs, cvv2_failures_on, day_of
from engine.instant import day_end_ms
from engine.limits import WIRE_AMOUNT_MINOR_MAX
from engine.trace import TraceStep


class Limit(msgspec.Struct, frozen=True, gc=False):
    """One limit on a purchase. ``limit`` and ``used`` are minor units, or numbers of purchases."""

    rule: str
    limit: int
    used: int = 0
    unit: Literal["amount", "count"] = "amount"
    resets_ms: int | None = None
    """When the used part becomes zero again; ``None`` if no time does that."""

    @property
    def remaining(self) -> int:
        """The unused part; never negative."""
        return max(0, self.limit - self.used)

    @property
    def bound_minor(self) -> int:
        """The largest amount that passes this limit."""
        if self.unit == "count" and self.remaining:
            return WIRE_AMOUNT_MINOR_MAX
        return self.remaining


class Binding(msgspec.Struct, frozen=True, gc=False):
    """The rule that declines one minor unit more. ``limit`` and ``used`` are those of its ``Limit``; for a
    rule without one, the limit and the observed value of its trace step."""

    rule: str
    reason: str
    limit: str | int | None
    used: str | int | None


class Headroom(msgspec.Struct, frozen=True, gc=False):
    """``max_minor`` is 0 if the platform approves no amount. ``binding`` is ``None`` if it approves the
    largest amount of a message (ISO 8583 DE4)."""

    max_minor: int
    binding: Binding | None
    limits: tuple[Limit, ...]


def headroom(command: Authorize, inputs: Inputs) -> Headroom:
    """The headroom for the purchase ``command``, whose amount is ignored. Expects a command in the card's
    currency that continues no authorization and takes no partial approval."""
    own = _platform_inputs(inputs)
    limits = tuple(limits_of(command, own))
    bound_minor = min([WIRE_AMOUNT_MINOR_MAX, *(limit.bound_minor for limit in limits)])
    approved = bound_minor > 0 and _decision(command, bound_minor, own).reason is None
    max_minor = bound_minor if approved else 0
    if max_minor == WIRE_AMOUNT_MINOR_MAX:
        return Headroom(max_minor, None, limits)
    return Headroom(max_minor, _binding(_decision(command, max_minor + 1, own), limits), limits)


def limits_of(command: Authorize, inputs: Inputs) -> Iterator[Limit]:
    """The limits that apply to the purchase ``command``, in the order of evaluation."""
    day = day_of(inputs)
    same_day = day == inputs.day
    resets_ms = day_end_ms(day, inputs.timezone)
    for control in inputs.controls:
        if isinstance(control, PerTxnCap):
            yield Limit(kind_of(control), control.amount_minor)
        elif isinstance(control, PerDayCap):
            used = inputs.day_count if same_day else 0
            yield Limit(kind_of(control), control.count, used, "count", resets_ms)
        elif isinstance(control, PerDayAmountCap):
            used = inputs.day_amount_minor if same_day else 0
            yield Limit(kind_of(control), control.amount_minor, used, "amount", resets_ms)
    risk_minor = risk.amount_limit_minor(command, cvv2_failures_on(inputs, day))
    if risk_minor is not None:
        yield Limit("risk", risk_minor)
    if inputs.programme_mode != "gateway":
        posted_minor = inputs.posted_minor or 0
        yield Limit("funds", posted_minor, posted_minor - available_minor(inputs))


def _platform_inputs(inputs: Inputs) -> Inputs:
    """``inputs`` of a programme that leaves its decisions to the platform."""
    if inputs.decisioning == "platform":
        return inputs
    return msgspec.structs.replace(inputs, decisioning="platform", endpoint_result=None)


def _decision(command: Authorize, amount_minor: int, inputs: Inputs) -> Decision:
    return authorize(msgspec.structs.replace(command, amount_minor=amount_minor), inputs)


def _binding(decision: Decision, limits: Sequence[Limit]) -> Binding:
    assert decision.reason is not None, "more than the least bound is declined"
    step = decision.trace[-1]
    limit = next((each for each in limits if _is_limit_of(each, step)), None)
    if limit is None:
        return Binding(step.rule, decision.reason, step.limit, step.observed)
    return Binding(step.rule, decision.reason, limit.limit, limit.used)


def _is_limit_of(limit: Limit, step: TraceStep) -> bool:
    """Whether ``step`` compares with ``limit``. The step of the funds shows the requested amount instead, and
    a card can have several controls of one kind."""
    return limit.rule == step.rule and (limit.rule == "funds" or limit.limit == step.limit)
