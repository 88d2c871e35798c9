"""Rows of the audit log for commands that carry out an administrative act.

The row commits with the effect of its command, so an acknowledged act is on record. A command that changes
nothing leaves no row.
"""

from __future__ import annotations

from typing import Any

import msgspec

from actors.cards.activation import Activation
from actors.journal.rows import ActRow
from engine.acts import Act, changed
from engine.cards.card import Card, card_view, declared_balance_view
from engine.commands import (
    PROGRAMME_COMMANDS,
    Command,
    CreateCardRule,
    CreateProgrammeRule,
    ReverseTransfer,
    Transfer,
    target_of,
)
from engine.execution.changing_rules import RULE_COMMANDS, RuleCommand
from engine.ids import Derived, derive
from engine.programmes.programme import Programme, policy_view, programme_view
from engine.replies import Done, Reply
from engine.rules.model import Rule, rule_view

_encode = msgspec.json.Encoder().encode


class Subject(msgspec.Struct, frozen=True):
    """The card, programme or authorization rule of an act, as it is shown at one moment."""

    kind: str
    tenant_id: str
    live: bool
    view: dict[str, Any]


def subject_of(command: Command, activation: Activation) -> Subject | None:
    """The card, programme or rule that ``command`` is for; ``None`` if its owner does not keep it: before its
    creation, and a rule after its retirement."""
    target = target_of(command)
    if isinstance(command, RULE_COMMANDS):
        return _rule(command, activation)
    if isinstance(command, PROGRAMME_COMMANDS):
        programme = activation.programmes.get(target)
        return None if programme is None else _programme(programme)
    actor = activation.card(target)
    return None if actor is None else _card(actor.card)


def act_row(
    act: Act,
    command: Command,
    before: Subject | None,
    after: Subject | None,
    reply: Reply | None,
    now_ms: int,
) -> ActRow | None:
    """The row of an act that ``command`` has carried out. An effect outside the card or programme is shown by
    the reply's body; that of a transfer is about the transfer. ``None`` if there is no effect."""
    if not isinstance(reply, Done):
        return None
    if isinstance(command, RULE_COMMANDS) and before is not None:
        after = msgspec.structs.replace(before, view=reply.body)
    if after is None:
        return None
    old, new = changed(None if before is None else before.view, after.view)
    if new is None:
        old, new = None, reply.body
    about = (after.kind, target_of(command))
    if isinstance(command, Transfer | ReverseTransfer):
        about = ("transfer", reply.body["id"])
    elif isinstance(command, RULE_COMMANDS):
        about = (after.kind, reply.body["id"])
    return ActRow(
        derive(command.id, Derived.ACT),
        after.tenant_id,
        after.live,
        now_ms,
        act.actor_kind,
        act.actor,
        act.name,
        *about,
        None if old is None else _encode(old).decode(),
        _encode(new).decode(),
        act.request_id,
    )


def _rule(command: RuleCommand, activation: Activation) -> Subject | None:
    if isinstance(command, CreateCardRule | CreateProgrammeRule):
        rule_id = command.id
    else:
        rule_id = command.change.rule_id
    for each in _rules(target_of(command), activation):
        if each.id == rule_id:
            return Subject("authorization_rule", command.tenant_id, command.live, rule_view(each))
    return None


def _rules(target: str, activation: Activation) -> tuple[Rule, ...]:
    programme, actor = activation.programmes.get(target), activation.card(target)
    if programme is not None:
        return programme.rules
    return () if actor is None else actor.card.rules


def _programme(programme: Programme) -> Subject:
    config = programme.config
    view = programme_view(config) | {"stip_policy": policy_view(config)}
    return Subject("programme", config.tenant_id, config.live, view)


def _card(card: Card) -> Subject:
    declared = card.declared and declared_balance_view(card.id, card.currency, card.declared)
    # Consumption changes with each decision in stand-in; the act is the declaration.
    view = card_view(card) | {"declared_balance": declared and declared["balance"]}
    return Subject("card", card.tenant_id, card.live, view)
