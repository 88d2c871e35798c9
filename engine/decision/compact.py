"""Compact texts of plain authorizations in the journal.

The journal keeps four texts of a command: command, inputs, decision and reply. Of a plain authorization it
stores only the values that no other column holds, by position (``compact_layout``). ``compacted`` makes these
texts, and ``compact_reading`` gives the exact original JSON back. Every other command is stored in full.

The state of card and programme that rarely changes is a *configuration*. It is stored once, under a digest of
its content, and the inputs name it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final, NamedTuple

import msgspec

from engine.commands import Authorize
from engine.decision.compact_delegated import compact_result, decider_of, follows_from, has_compact_form
from engine.decision.compact_layout import (
    COMMAND_PARTS,
    DECISION_PARTS,
    DELEGATED_PARTS,
    OUTCOMES,
    RULE_NAMES,
    Configuration,
    Further,
    digest_of,
)
from engine.decision.decide import Decision
from engine.decision.inputs import RULES, Inputs
from engine.instant import DAY_MS
from engine.limits import CONFIGURATIONS_CACHED_MAX
from engine.replies import Reply, WireAnswer
from engine.trace import TraceStep

_CODES: Final = {
    outcome: {rule: len(OUTCOMES) * number + place for number, rule in enumerate(RULE_NAMES)}
    for place, outcome in enumerate(OUTCOMES)
}
"""The codes of steps, by outcome and rule."""

_encode = msgspec.json.Encoder().encode


class CompactTexts(NamedTuple):
    """The texts of a journal row, and the configuration that its inputs name."""

    command: str
    inputs: str
    decision: str
    reply: str
    configuration: Configuration


def compacted(
    command: Authorize, inputs: Inputs, decision: Decision, reply: Reply, seq: int, now_ms: int
) -> CompactTexts | None:
    """The compact texts of an authorization that is the command number ``seq`` of its card and was recorded
    at ``now_ms``; ``None`` if it must be stored in full."""
    if not (_is_plain(command) and has_plain_inputs(inputs, seq, now_ms)):
        return None
    if not follows_from(inputs.endpoint_result, decision):
        return None
    outcome = outcome_texts(decision, inputs.day, now_ms)
    answer = WireAnswer(
        decision.response_code,
        command.id,
        decision.approval_code,
        decision.approved_minor,
        reason=decision.reason,
    )
    if outcome is None or reply != answer:
        return None
    configuration = _configuration_of(inputs)
    inputs_text = compact_inputs(inputs, configuration.digest)
    parts = DECISION_PARTS if decision.decided_by == "platform" else DECISION_PARTS + DELEGATED_PARTS
    decision_text = _shortened(outcome[0], parts)
    return CompactTexts(_compact_command(command), inputs_text, decision_text, outcome[1], configuration)


def compact_inputs(inputs: Inputs, digest: str) -> str:
    """The compact text of plain ``inputs`` whose configuration has the ``digest``."""
    figures: tuple[Any, ...] = (
        digest,
        inputs.day,
        inputs.day_count,
        inputs.day_amount_minor,
        inputs.cvv2_failures,
        inputs.account_version,
        inputs.posted_minor,
        inputs.held_minor,
    )
    if inputs.endpoint_result is not None or inputs.declared_remaining_minor is not None:
        figures += (compact_result(inputs.endpoint_result), inputs.declared_remaining_minor)
    return _encode(figures).decode()


def outcome_texts(decision: Decision, day_before: str, now_ms: int) -> tuple[str, str] | None:
    """The compact texts of a decision at ``now_ms``, in which no part is shortened yet, and of its reply;
    ``None`` if it has none. ``day_before`` is the day of its inputs. The caller sees to it that its stand-in
    follows from them (``follows_from``)."""
    trace = _compact_trace(decision.trace, decision.day) if _is_plain_decision(decision) else None
    hold_ms = None if decision.hold_expires_ms is None else decision.hold_expires_ms - now_ms
    if trace is None or (hold_ms is not None and hold_ms % DAY_MS):
        return None
    outcome = (
        decision.risk_score,
        None if decision.risk_action == "allow" else decision.risk_action,
        None if decision.day == day_before else decision.day,
        None if hold_ms is None else hold_ms // DAY_MS,
        *((decider,) if (decider := decider_of(decision)) else ()),
        *trace,
    )
    answered: tuple[str | int | None, ...] = (
        decision.response_code,
        decision.approval_code,
        decision.approved_minor,
    )
    if decision.reason is not None:
        answered += (decision.reason,)
    return _encode(outcome).decode(), _encode(answered).decode()


def _is_plain(command: Authorize) -> bool:
    return command.kind == "purchase" and not command.references and not command.wire.further


def has_plain_inputs(inputs: Inputs, seq: int, now_ms: int) -> bool:
    """Whether ``inputs`` have a compact text in the row number ``seq`` that was recorded at ``now_ms``."""
    return (
        inputs.now_ms == now_ms
        and inputs.card_seq == seq - 1
        and inputs.rules == RULES
        and inputs.rules_in_force is None
        and inputs.original is None
        and not inputs.lapsed_holds
        and not inputs.reversed_early
        and has_compact_form(inputs.endpoint_result)
    )


def _is_plain_decision(decision: Decision) -> bool:
    return decision.decline_detail is None and decision.matched_rule is None and not decision.shadow_matches


def _compact_command(command: Authorize) -> str:
    wire = command.wire
    further = Further(
        command.mit,
        command.partial_allowed,
        command.partial_cap_minor,
        command.expiry,
        command.cvv2,
        command.cvv1,
        command.pin,
        command.chip,
        command.chip_tags,
        command.address,
        command.authentication,
        command.merchant_amount,
        command.endpoint_silent,
    )
    values = (
        wire.acquirer_id,
        wire.stan,
        wire.transmitted_at,
        wire.rrn,
        wire.network_txn_id,
        command.amount_minor,
        command.currency,
        command.mcc,
        command.merchant_name,
        command.merchant_country,
        command.channel,
        command.merchant_id,
        command.entry_mode,
        further,
    )
    return _shortened(_encode(values).decode(), COMMAND_PARTS)


def _compact_trace(trace: tuple[TraceStep, ...], day: str) -> list[Any] | None:
    """A step is its code; an array of its code, the observed value and the limit; or, if both are ``active``,
    a negative number. ``true`` stands for the day of the decision. ``None`` if a step has no code."""
    steps: list[Any] = []
    for step in trace:
        code = _CODES[step.outcome].get(step.rule)
        if code is None:
            return None
        observed, limit = step.observed, step.limit
        if limit is None:
            steps.append(code if observed is None else (code, observed))
        elif observed == limit == "active":
            steps.append(-1 - code)
        else:
            steps.append((code, True if observed == day else observed, limit))
    return steps


def _shortened(text: str, parts: tuple[tuple[str, str], ...]) -> str:
    for character, part in parts:
        text = text.replace(part, character)
    return text


def _configuration_of(inputs: Inputs) -> Configuration:
    card = _encode(
        (
            inputs.card_state,
            inputs.cardholder_active,
            inputs.network,
            inputs.card_currency,
            inputs.exp_year,
            inputs.exp_month,
            inputs.controls,
        )
    )
    return _configuration(
        card,
        inputs.programme_version,
        inputs.programme_status,
        inputs.programme_mode,
        inputs.timezone,
        inputs.hold_expiry_days,
        inputs.decisioning,
    )


@lru_cache(maxsize=CONFIGURATIONS_CACHED_MAX)
def _configuration(card: bytes, *programme: Any) -> Configuration:
    """``programme``: the members from ``programme_version`` to ``hold_expiry_days``, and ``decisioning``."""
    texts = card[1:-1].decode(), _encode(programme[:-1])[1:-1].decode(), programme[-1]
    return Configuration(digest_of(*texts), *texts)
