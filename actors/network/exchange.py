"""A request of a network and its answer."""

from __future__ import annotations

import msgspec

from actors.network.requester import Requester
from actors.tracing import Span
from engine.commands import Advise, Authorize, Present, Reverse, WireIdentity
from engine.iso8583.content import Content, ReversalNotice
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

    @property
    def wire(self) -> WireIdentity:
        """What the network calls the message."""
        content = self.content
        return content.wire if isinstance(content, ReversalNotice) else content.purchase.wire
