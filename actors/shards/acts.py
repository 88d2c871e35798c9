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
from engine.commands import PROGRAMME_COMMANDS, Command, ReverseTransfer, Transfer, target_of
from engine.ids import Derived, derive
from engine.programmes.programme import Programme, policy_view, programme_view
from engine.replies import Done, Reply

_encode = msgspec.json.Encoder().encode


class Subject(msgspec.Struct, frozen=True):
    """The card or programme of an act, as it is shown at one moment."""

    kind: str
    tenant_id: str
    live: bool
    view: dict[str, Any]


def subject_of(command: Command, activation: Activation) -> Subject | None:
    """The card or programme that ``command`` is for; ``None`` before its creation."""
    target = target_of(command)
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
    if after is None or not isinstance(reply, Done):
        return None
    old, new = changed(None if before is None else before.view, after.view)
    if new is None:
        old, new = None, reply.body
    about = (after.kind, target_of(command))
    if isinstance(command, Transfer | ReverseTransfer):
        about = ("transfer", reply.body["id"])
    return ActRow(
        derive(command.id, Derived.ACT),
        after.tenant_id,
        after.live,
        now_ms,
        "client",
        act.actor,
        act.name,
        *about,
        None if old is None else _encode(old).decode(),
        _encode(new).decode(),
        act.request_id,
    )


def _programme(programme: Programme) -> Subject:
    config = programme.config
    view = programme_view(config) | {"stip_policy": policy_view(config)}
    return Subject("programme", config.tenant_id, config.live, view)


def _card(card: Card) -> Subject:
    declared = card.declared and declared_balance_view(card.id, card.currency, card.declared)
    # Consumption changes with each decision in stand-in; the act is the declaration.
    view = card_view(card) | {"declared_balance": declared and declared["balance"]}
    return Subject("card", card.tenant_id, card.live, view)
