"""The permissions of a link, as the respondent sees them."""

from __future__ import annotations

from typing import Protocol

from actors.network.exchange import MessageCommand
from engine.iso8583.content import Content
from engine.iso8583.message import Message


class Screen(Protocol):
    """The permissions of one link (``links.screening``)."""

    def refuse(self, message: Message, content: Content) -> str | None:
        """DE39 for a message that the link may not send, else ``None``."""

    def restricted(self, command: MessageCommand) -> MessageCommand:
        """``command`` as the link may send it."""

    def count_owner_refusal(self, message: Message) -> None:
        """Count a message that its owner refused, because the link may not send it."""
