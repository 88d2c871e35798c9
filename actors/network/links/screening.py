"""Refuses messages that a link may not send: by their class, their institutions and the card's IIN.

A refused message reaches no owner and changes nothing. The response codes are final (58, 31), so networks do
not send it again.
"""

from __future__ import annotations

import msgspec

from actors.network.edge_counts import EdgeCounts
from actors.network.exchange import MessageCommand
from actors.network.links.entry import LinkEntry
from actors.network.links.refusing import Reason, note_refusal
from engine.commands import Present
from engine.iso8583.content import Content, ReversalNotice
from engine.iso8583.elements import read_original_elements
from engine.iso8583.message import Message
from engine.iso8583.message_class import message_class
from engine.iso8583.respond import NOT_PERMITTED, NOT_SERVED


class Screening:
    """The permissions of one link."""

    def __init__(self, entry: LinkEntry, counts: EdgeCounts) -> None:
        self._entry = entry
        self._counts = counts

    def refuse(self, message: Message, content: Content) -> str | None:
        """DE39 for a message that the link may not send, else ``None``. ``message`` has the form of the 1987
        version."""
        if self._is_foreign(message, content):
            return self._refuse("institution", message, NOT_SERVED)
        if self._entry.iins and not content.pan[:].startswith(self._entry.iins):
            return self._refuse("iin", message, NOT_SERVED)
        if message_class(content) not in self._entry.may_post:
            return self._refuse("message_class", message, NOT_PERMITTED)
        return None

    def restricted(self, command: MessageCommand) -> MessageCommand:
        """``command`` as this link may send it: without ``force_post``, a presentment must find its sale."""
        if isinstance(command, Present) and "force_post" not in self._entry.may_post:
            return msgspec.structs.replace(command, matched_only=True)
        return command

    def count_owner_refusal(self, message: Message) -> None:
        """Count a presentment that its owner refused, because it found no sale."""
        self._refuse("message_class", message, NOT_PERMITTED)

    def _is_foreign(self, message: Message, content: Content) -> bool:
        """Whether DE32, DE33, or the acquirer of the message that a reversal names is not of this link."""
        accepted = self._entry.institutions
        if not accepted:
            return False
        fields = message.fields
        named = [fields[number] for number in (32, 33) if number in fields]
        if isinstance(content, ReversalNotice) and 90 in fields:
            named.append(read_original_elements(fields[90]).acquirer_id or fields[32])
        return any((each.lstrip("0") or "0") not in accepted for each in named)

    def _refuse(self, reason: Reason, message: Message, response_code: str) -> str:
        note_refusal(self._entry, self._counts, reason, message)
        return response_code
