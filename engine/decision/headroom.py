"""Headroom: the largest amount of a purchase that the platform approves now, and the rule that binds it.

Each limit on amounts gives a bound, and authorization rules decline ranges of amounts below it. The decision
itself (``authorize``) then decides at the result and one minor unit above it, so that it cannot differ from
the decision on a purchase.

Programmes that decide themselves, partial approvals and stand-in are outside: headroom is the whole amount
that passes the platform's own rules.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec

from engine.commands import Authorize
from engine.controls import KINDS, PerDayAmountCap, PerDayCap, PerTxnCap, kind_of
from engine.decision import risk
from engine.decision.amounts import available_minor
from engine.decision.decide import Decision, authorize
from engine.decision.inputs import Inputs, cvv2_failures_on, day_of
from engine.decision.rule_limits import Rules
from engine.instant import day_end_ms
from engine.limits import WIRE_AMOUNT_MINOR_MAX
from engine.rules.evaluate import NO_RULES, RuleSet
from engine.trace import TraceStep

Unit = Literal["amount", "count"]


class Limit(msgspec.Struct, frozen=True, gc=False):
    """One limit on a purchase. ``limit`` and ``used`` are minor units, or numbers of purchases."""

    rule: str
    limit: int
    used: int = 0
    unit: Unit = "amount"
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
    unit: Unit | None = None
    """``None``: the rule compares no amounts or numbers of purchases."""
    detail: str | None = None
    """The issuer's own reason, of an authorization rule."""


class Headroom(msgspec.Struct, frozen=True, gc=False):
    """``max_minor`` is 0 if the platform approves no amount. ``binding`` is ``None`` if it approves the
    largest amount of a message (ISO 8583 DE4)."""

    max_minor: int
    binding: Binding | None
    limits: tuple[Limit, ...]


def headroom(command: Authorize, inputs: Inputs, rules: RuleSet = NO_RULES) -> Headroom:
    """The headroom for the purchase ``command``, whose amount is ignored. Expects a command in the card's
    currency that continues no authorization and takes no partial approval. ``rules`` as for ``authorize``."""
    own = _platform_inputs(inputs)
    in_force = Rules(rules, command, own)
    before, after = tuple(_controls(own)), tuple(_risk_and_funds(command, own))
    bound_minor = min([WIRE_AMOUNT_MINOR_MAX, *(limit.bound_minor for limit in (*before, *after))])
    max_minor = in_force.largest_passing_minor(bound_minor) if bound_minor else 0
    if max_minor and _decision(command, max_minor, own, rules).reason is not None:
        # A rule that does not depend on the amount declines.
        max_minor = 0
    limits = (*before, *(Limit(*each) for each in in_force.limits()), *after)
    if max_minor == WIRE_AMOUNT_MINOR_MAX:
        return Headroom(max_minor, None, limits)
    declined = _decision(command, max_minor + 1, own, rules)
    return Headroom(max_minor, _binding(declined, limits, max_minor), limits)


def _controls(inputs: Inputs) -> Iterator[Limit]:
    """The limits of the card's controls, in the order of evaluation."""
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


def _risk_and_funds(command: Authorize, inputs: Inputs) -> Iterator[Limit]:
    """The limits that follow the authorization rules."""
    risk_minor = risk.amount_limit_minor(command, cvv2_failures_on(inputs, day_of(inputs)))
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


def _decision(command: Authorize, amount_minor: int, inputs: Inputs, rules: RuleSet) -> Decision:
    return authorize(msgspec.structs.replace(command, amount_minor=amount_minor), inputs, rules)


def _binding(declined: Decision, limits: Sequence[Limit], max_minor: int) -> Binding:
    """The rule of ``declined``, the decision on one minor unit more than ``max_minor``."""
    assert declined.reason is not None, "one minor unit more is declined"
    step, detail = declined.trace[-1], declined.decline_detail
    own = [limit for limit in limits if _is_limit_of(limit, step)]
    if not own:
        return Binding(step.rule, declined.reason, step.limit, step.observed, None, detail)
    limit = next((each for each in own if each.bound_minor == max_minor), own[0])
    return Binding(step.rule, declined.reason, limit.limit, limit.used, limit.unit, detail)


def _is_limit_of(limit: Limit, step: TraceStep) -> bool:
    """Whether ``step`` compares with ``limit``. A card can have several controls of one kind, whose steps
    show the limit; the steps of other rules do not."""
    return (
        limit.rule == step.rule
        and (step.rule not in KINDS or limit.limit == step.limit)
        and step.rule != "risk"
    )
