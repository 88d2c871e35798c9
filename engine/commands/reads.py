"""Reads of a card's state."""

from __future__ import annotations

from engine.commands.authorizations import Authorize
from engine.commands.base import CommandBase


class ReadBalance(CommandBase, frozen=True, omit_defaults=True, kw_only=True, tag="read_balance"):
    """Read a card's present balance from its owner. It is not journaled."""

    card_id: str
    tenant_id: str
    live: bool


class Evaluate(CommandBase, frozen=True, omit_defaults=True, kw_only=True, tag="evaluate"):
    """Decide ``request`` as if it arrived now, and change nothing. It is not journaled."""

    card_id: str
    tenant_id: str
    live: bool
    request: Authorize
    stand_in: bool = False
    """Whether the endpoint of a delegated programme counts as silent."""


class ReadHeadroom(CommandBase, frozen=True, omit_defaults=True, kw_only=True, tag="read_headroom"):
    """Find the largest amount of ``request`` that the platform approves now. It is not journaled."""

    card_id: str
    tenant_id: str
    live: bool
    request: Authorize
    """A purchase; its amount is ignored."""
