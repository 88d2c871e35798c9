"""Decisions that a change certainly leaves as they were, except their traces, and presentments of them.

Most commands are of this kind. A few values show it, and the second run of a back-test then takes the effects
of the recorded run.
"""

from __future__ import annotations

from copy import copy
from typing import Final

import msgspec

from engine.authorization.effects import AuthorizationOpened, Effect, HoldPlaced
from engine.authorization.executed import CommandContext
from engine.cards.authorization import open_hold
from engine.cards.card import Card
from engine.commands import Advise, Authorize, Present, Reverse
from engine.controls import PRECEDENCE, Control
from engine.decision.decide import Decision
from engine.decision.inputs import Inputs
from engine.decision.rules import control_rules
from engine.rules.evaluate import Past, RuleSet, first_match, in_force

_CONTROL_REASONS: Final = frozenset(control.reason for control in PRECEDENCE)


def is_unaffected(
    command: Authorize,
    inputs: Inputs,
    decision: Decision,
    controls: tuple[Control, ...],
    rules: RuleSet,
    past: Past | None,
    created_ms: int,
) -> bool:
    """Whether ``decision`` on ``inputs`` stays as it is if ``controls`` and ``rules`` are added, whatever
    else is removed. ``past`` is needed if ``rules`` have velocities; ``created_ms`` is the card's creation.

    ``False`` also stands for decisions that are hard to tell: those that a control or a rule declined, and
    those that another rule declined before the added ones.
    """
    if command.kind == "refund" or not command.amount_minor:
        return True
    if decision.reason in _CONTROL_REASONS or decision.matched_rule is not None:
        return False
    if control_rules(command, inputs, controls, decision.day, []) is not None:
        return False
    if not rules.active:
        return True
    named = in_force(rules, past, command, inputs.timezone, inputs.now_ms, created_ms)
    added = msgspec.structs.replace(inputs, rules_in_force=named)
    return first_match(rules, command, added, decision.risk_score, []) is None


def is_approved_alike(
    command: Authorize,
    inputs: Inputs,
    decision: Decision,
    recorded: Card,
    context: CommandContext,
    controls: tuple[Control, ...],
) -> bool:
    """Whether ``decision`` on ``inputs``, an approval in full of the card ``recorded``, is the same in the
    state of ``context`` under ``controls``, where no rules are in force. Expired holds are closed already."""
    card, account = context.card, context.account
    if (
        decision.reason is not None
        or decision.approved_minor != command.amount_minor
        or command.kind == "refund"
        or not command.amount_minor
        or command.references
        or account is None
        or inputs.programme_mode != "managed"
        or inputs.decisioning != "platform"
    ):
        return False
    if (
        account.posted_minor - account.held_minor < command.amount_minor
        or (card.day, card.cvv2_failures) != (recorded.day, recorded.cvv2_failures)
        or recorded.tombstones
        or card.tombstones
    ):
        return False
    if not controls:
        return True
    counted = msgspec.structs.replace(
        inputs, day_count=card.day_count, day_amount_minor=card.day_amount_minor
    )
    return control_rules(command, counted, controls, decision.day, []) is None


def is_captured_alike(
    command: Reverse | Present | Advise, recorded: CommandContext, twin: CommandContext
) -> bool:
    """Whether ``command`` is a presentment with the same effects in both states, in which it is not applied
    yet: it clears authorizations with the same amounts and the same open hold. ``False`` also stands for
    presentments that are hard to tell."""
    original, other = recorded.original, twin.original
    if type(command) is not Present or command.kind != "purchase" or original is None:
        return False
    if recorded.programme.mode != "managed":
        return False
    held, other_held = open_hold(original, recorded.account), open_hold(original, twin.account)
    return (
        held is not None
        and other_held is not None
        and held.expires_ms == other_held.expires_ms
        and held.amount_minor == other_held.amount_minor
        and original == other
    )


def independent(effects: tuple[Effect, ...]) -> tuple[Effect, ...]:
    """``effects`` of a new authorization for another state: later changes of one state do not appear in the
    other."""
    return tuple([_independent(effect) for effect in effects])


def _independent(effect: Effect) -> Effect:
    if type(effect) is AuthorizationOpened:
        authorization = copy(effect.authorization)
        authorization.increments = dict(authorization.increments)
        return AuthorizationOpened(authorization, effect.held_minor)
    return HoldPlaced(copy(effect.hold)) if type(effect) is HoldPlaced else effect
