"""The evaluation of rules inside a decision: pure, over the values of one purchase.

A ``RuleSet`` has the rules that are in force for a card, in the order of evaluation: those of its programme,
of its card product, then its own. Each value is read once for all rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeAlias

from engine.limits import RULE_SETS_MAX
from engine.rules.attributes import ATTRIBUTES, UNAUTHENTICATED, needs_authentication
from engine.rules.compile import (
    FIRST_AT_MERCHANT,
    CompiledRule,
    Predicate,
    Source,
    compile_rule,
)
from engine.rules.model import Rule, Velocity, in_order
from engine.rules.observed import Observed, RuleName, RulesInForce
from engine.rules.velocity import DISTINCT, Counted, History, filter_of
from engine.trace import TraceStep

if TYPE_CHECKING:
    from engine.commands import Authorize
    from engine.decision.inputs import Inputs

Versions: TypeAlias = Mapping[RuleName, Rule]
"""Rules by id and version."""
_BoundCondition: TypeAlias = tuple[int, Predicate, Callable[[Any], Any] | None, str]
_Read: TypeAlias = "Callable[[Authorize, Inputs, int], Any]"


class BoundRule(NamedTuple):
    """A rule whose conditions name their values by index."""

    name: RuleName
    label: str
    decline_reason: str
    detail: str
    conditions: tuple[_BoundCondition, ...]


class RuleSet(NamedTuple):
    """The active and the shadow rules of a card. ``velocities`` stand in the order of the observed values in
    ``RulesInForce``."""

    active: tuple[BoundRule, ...] = ()
    shadow: tuple[BoundRule, ...] = ()
    velocities: tuple[Velocity, ...] = ()
    readers: tuple[_Read, ...] = ()
    versions: tuple[RuleName, ...] = ()
    shadow_versions: tuple[RuleName, ...] = ()
    card_velocities: tuple[Velocity, ...] = ()
    """Velocities of the card's own past."""
    account_velocities: tuple[Velocity, ...] = ()
    """Velocities of the past of all cards of the account."""


NO_RULES: Final = RuleSet()


class Past(Protocol):
    """Observes velocities: the histories of a card and its account, or the values of a stored decision."""

    def observe(
        self, velocities: tuple[Velocity, ...], zone: str, now_ms: int, counted: Counted
    ) -> tuple[Observed, ...]:
        """The values before ``counted``, the authorization being decided."""
        ...


class LivePast:
    """The histories of a card and of its account; a card without an account has its own only."""

    def __init__(self, card: History, account: History) -> None:
        self._card = card
        self._account = account

    def observe(
        self, velocities: tuple[Velocity, ...], zone: str, now_ms: int, counted: Counted
    ) -> tuple[Observed, ...]:
        """See ``Past``."""
        return tuple(
            (self._card if velocity.of == "card" else self._account).observe(velocity, zone, now_ms, counted)
            for velocity in velocities
        )


class RecordedPast:
    """The observed values of a stored decision, for replays."""

    def __init__(self, observed: tuple[Observed, ...]) -> None:
        self._observed = observed

    def observe(
        self, velocities: tuple[Velocity, ...], zone: str, now_ms: int, counted: Counted
    ) -> tuple[Observed, ...]:
        """See ``Past``."""
        del velocities, zone, now_ms, counted
        return self._observed


def rules_for(card_product_id: str, of_programme: tuple[Rule, ...], of_card: tuple[Rule, ...]) -> RuleSet:
    """The rules in force for a card of ``card_product_id``; ``of_programme`` includes those of all its
    products. Drafts and retired rules are left out."""
    if not of_programme and not of_card:
        return NO_RULES
    ordered = (
        *in_order(tuple(rule for rule in of_programme if rule.scope == "programme")),
        *in_order(tuple(rule for rule in of_programme if rule.scope_id == card_product_id)),
        *in_order(of_card),
    )
    return rule_set(
        (rule for rule in ordered if rule.state == "active"),
        (rule for rule in ordered if rule.state == "shadow"),
    )


def recorded_rules(in_force: RulesInForce | None, versions: Versions) -> RuleSet:
    """The rules of a stored decision. Raises ``KeyError`` if a version is missing."""
    if in_force is None:
        return NO_RULES
    return rule_set(
        (versions[name] for name in in_force.versions), (versions[name] for name in in_force.shadow_versions)
    )


def rule_set(active: Iterable[Rule], shadow: Iterable[Rule] = ()) -> RuleSet:
    """Compile rules in the order of evaluation."""
    return _rule_set(tuple(map(compile_rule, active)), tuple(map(compile_rule, shadow)))


@lru_cache(maxsize=RULE_SETS_MAX)
def _rule_set(active: tuple[CompiledRule, ...], shadow: tuple[CompiledRule, ...]) -> RuleSet:
    if not active and not shadow:
        return NO_RULES
    sources: dict[Source, int] = {}
    velocities: dict[Velocity, int] = {}
    for rule in (*active, *shadow):
        for condition in rule.conditions:
            sources.setdefault(condition.source, len(sources))
            velocity = FIRST_AT_MERCHANT if condition.source == "first_at_merchant" else condition.source
            if isinstance(velocity, Velocity):
                velocities.setdefault(velocity, len(velocities))
    return RuleSet(
        tuple(_bind(rule, sources) for rule in active),
        tuple(_bind(rule, sources) for rule in shadow),
        tuple(velocities),
        tuple(_reader(source, velocities) for source in sources),
        tuple(rule.name for rule in active),
        tuple(rule.name for rule in shadow),
        tuple(each for each in velocities if each.of == "card"),
        tuple(each for each in velocities if each.of == "account"),
    )


def _bind(rule: CompiledRule, sources: Mapping[Source, int]) -> BoundRule:
    conditions = tuple((sources[each.source], each.holds, each.show, each.text) for each in rule.conditions)
    return BoundRule(rule.name, rule.label, rule.decline_reason, rule.detail, conditions)


def _reader(source: Source, velocities: Mapping[Velocity, int]) -> _Read:
    if isinstance(source, Velocity):
        return _velocity_reader(source, velocities[source])
    if source == UNAUTHENTICATED:
        return lambda command, inputs, _points: needs_authentication(command, inputs)
    if source == "first_at_merchant":
        index = velocities[FIRST_AT_MERCHANT]
        return lambda _command, inputs, _points: inputs.original is None and not _observed(inputs, index).seen
    read = ATTRIBUTES[source].read
    assert read is not None, "the other attributes have readers"
    return read


def _velocity_reader(velocity: Velocity, index: int) -> _Read:
    """The observed value with the authorization being decided, unless the filter excludes it."""
    matches = filter_of(velocity.where)
    measure = velocity.measure

    def read(command: Authorize, inputs: Inputs, _points: int) -> int:
        observed = _observed(inputs, index)
        if measure == "declines" or (matches is not None and not matches(counted_of(command, inputs.now_ms))):
            return observed.value
        if measure == "amount":
            return observed.value + command.amount_minor
        if measure in DISTINCT:
            return observed.value + (not observed.seen)
        return observed.value + (inputs.original is None)

    return read


def _observed(inputs: Inputs, index: int) -> Observed:
    assert inputs.rules_in_force is not None, "rules with velocities have observed values"
    return inputs.rules_in_force.observed[index]


def counted_of(command: Authorize, now_ms: int) -> Counted:
    """A purchase as velocities see it before it is approved."""
    return Counted(
        key=command.id,
        at_ms=now_ms,
        amount_minor=0,
        count=0,
        requested_minor=command.amount_minor,
        mcc=command.mcc,
        merchant_country=command.merchant_country,
        merchant_name=command.merchant_name,
        merchant_id=command.merchant_id,
        channel=command.channel,
        entry_mode=command.entry_mode,
    )


def in_force(
    rules: RuleSet, past: Past | None, command: Authorize, zone: str, now_ms: int, card_created_ms: int
) -> RulesInForce:
    """The rules of a decision and the values that its command does not have, as its inputs store them."""
    observed: tuple[Observed, ...] = ()
    if rules.velocities:
        assert past is not None, "prefetch reads the past"
        observed = past.observe(rules.velocities, zone, now_ms, counted_of(command, now_ms))
    return RulesInForce(rules.versions, rules.shadow_versions, observed, card_created_ms)


def first_match(
    rules: RuleSet, command: Authorize, inputs: Inputs, points: int, trace: list[TraceStep]
) -> BoundRule | None:
    """The first active rule whose conditions all hold, with a trace step for each evaluated rule."""
    values = [read(command, inputs, points) for read in rules.readers]
    for rule in rules.active:
        for index, holds, show, text in rule.conditions:
            value = values[index]
            if not holds(value):
                trace.append(TraceStep(rule.label, "pass", value if show is None else show(value), text))
                break
        else:
            trace.append(TraceStep(rule.label, "fail", value if show is None else show(value), text))
            return rule
    return None


def shadow_matches(rules: RuleSet, command: Authorize, inputs: Inputs, points: int) -> tuple[RuleName, ...]:
    """The shadow rules whose conditions all hold."""
    values = [read(command, inputs, points) for read in rules.readers]
    return tuple(
        rule.name
        for rule in rules.shadow
        if all(holds(values[index]) for index, holds, _show, _text in rule.conditions)
    )
