"""Requests that wait for the answer of a card's owner."""

from __future__ import annotations

import msgspec

from actors.network.requester import Requester
from actors.tracing import Span
from engine.commands import Advise, Authorize, Present, Reverse
from engine.iso8583.content import Content
from engine.iso8583.message import Message

MessageCommand = Authorize | Advise | Present | Reverse
"""Commands that network messages become."""


class Exchange(msgspec.Struct, eq=False):
    """One request and its answer. Compared by identity: equal messages are different exchanges."""

    requester: Requester
    """Replaced by a ``DelayedRequester`` when the answer must leave later."""
    message: Message
    content: Content
    arrived: float
    """In the loop's time."""
    span: Span | None = None
    """The edge's span, if the edge traces."""


class OpenCommand(msgspec.Struct):
    """One command at its owner. A message and its repeats are several exchanges of one command."""

    command: MessageCommand
    waiting: int = 0
    """Exchanges without a reply."""
    withheld: bool = False
    """Whether the network asked for an answer after its deadline, and will advise its own decision."""
    answered: bool = False
    """Whether one exchange has given the owner's answer to the network in time."""
    outcome_unknown: bool = False
    """Whether one submission ended without the owner's answer, so that the command may have been executed."""
    approved_late_minor: int | None = None
    """The amount of an approval that arrived after the deadline of its exchange."""
