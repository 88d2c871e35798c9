"""Cache of stored replies: a repeated message gets its reply without a look-up in the journal.

The cache is only the fast path. The journal's unique command key prevents a second execution.

A late reversal makes one stored reply obsolete: the edge reverses an approval if the network had got 91 by
then. A repeat at any edge gets 91 again.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice

import msgspec

from actors.journal.contract import StoredReply
from engine.commands import Advise, Authorize, Command, Present, Reverse
from engine.decline import DUPLICATE_CONFLICT
from engine.iso8583.identity import late_reversal_key
from engine.iso8583.respond import DEADLINE_EXCEEDED, approves
from engine.limits import ANSWERS_EVICTED, RECENT_ANSWERS_MAX
from engine.replies import Done, NotExecuted, Reply, WireAnswer

_decode = msgspec.json.Decoder(Reply).decode
# Constants: a union expression builds a new object at each evaluation.
_WIRE_COMMANDS = (Authorize, Reverse, Present, Advise)
_REPEATABLE = (WireAnswer, Done)


class RecentAnswers:
    """Replies by command key. The oldest are evicted first."""

    def __init__(self, size: int = RECENT_ANSWERS_MAX) -> None:
        self._size = size
        self._known: dict[bytes, tuple[bytes | None, Reply] | StoredReply] = {}

    def remember(self, command_key: bytes, fingerprint: bytes | None, reply: Reply) -> None:
        """Cache a durable reply."""
        self._keep(command_key, (fingerprint, reply))

    def remember_stored(self, answers: Mapping[bytes, StoredReply]) -> None:
        """Cache replies from the journal, given newest first. They stay JSON: few are requested, and a
        decoded card view takes more memory than the card."""
        for command_key, stored in reversed(list(answers.items())):
            self._keep(command_key, stored)

    def __contains__(self, command_key: bytes) -> bool:
        return command_key in self._known

    def known(self, command_key: bytes) -> Reply | None:
        """The cached reply, or ``None``."""
        known = self._known.get(command_key)
        if known is None:
            return None
        return _decode(known.reply) if isinstance(known, StoredReply) else known[1]

    def repeat(self, command: Command) -> Reply | None:
        """The reply for a repeat of an executed command, or ``None`` if it is not cached."""
        known = self._known.get(command.command_key)
        if known is None:
            return None
        again = (
            reply_from_journal(command, known)
            if isinstance(known, StoredReply)
            else reply_again(command, *known)
        )
        return self.unless_reversed(command, again)

    def unless_reversed(self, command: Command, reply: Reply) -> Reply:
        """``reply`` to ``command``, or 91 if it is an approval that its edge has reversed."""
        if (
            isinstance(command, Authorize)
            and isinstance(reply, WireAnswer)
            and approves(reply.response_code)
            and late_reversal_key(command.command_key) in self._known
        ):
            return WireAnswer(DEADLINE_EXCEEDED, reply.authorization_id, replayed=reply.replayed)
        return reply

    def _keep(self, command_key: bytes, answer: tuple[bytes | None, Reply] | StoredReply) -> None:
        # Moved to the end: a late reversal must be evicted after its command.
        self._known.pop(command_key, None)
        self._known[command_key] = answer
        if len(self._known) > self._size:
            # Evict many at once: a dict searches its first key behind all deleted ones.
            for oldest in list(islice(self._known, max(1, min(self._size // 8, ANSWERS_EVICTED)))):
                del self._known[oldest]


def fingerprint_of(command: Command) -> bytes | None:
    """The fingerprint that a wire command shares with its repeats, or ``None`` for REST commands."""
    return command.fingerprint if isinstance(command, _WIRE_COMMANDS) else None


def reply_again(command: Command, fingerprint: bytes | None, reply: Reply) -> Reply:
    """The stored reply, marked as replayed, or 94 if the fingerprint differs: a repeat with other content."""
    if fingerprint != fingerprint_of(command):
        authorization_id = reply.authorization_id if isinstance(reply, WireAnswer) else ""
        return WireAnswer(DUPLICATE_CONFLICT, authorization_id, replayed=True)
    if isinstance(reply, _REPEATABLE):
        return msgspec.structs.replace(reply, replayed=True)
    return reply


def reply_from_journal(command: Command, stored: StoredReply) -> Reply:
    """``reply_again`` for a reply in the journal's JSON."""
    return reply_again(command, stored.fingerprint, _decode(stored.reply))


KEY_REUSED = NotExecuted("key_reused")
