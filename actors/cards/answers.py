"""What a host remembers of commands it has executed, so that a repeated message gets the stored answer
without a look-up.

Memory is only the fast path: the journal's unique command key is what makes a second execution impossible.

One stored answer stops being true: an approval that its edge has undone, because the network was told 91 in
the meantime. Whoever asks again is told 91 again, from whichever edge.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice

import msgspec

from actors.journal.contract import Stored
from engine.commands import Advise, Authorize, Command, Present, Reverse
from engine.decline import DUPLICATE_CONFLICT
from engine.iso8583.identity import late_reversal_key
from engine.iso8583.respond import DEADLINE_EXCEEDED, approves
from engine.limits import ANSWERS_FORGOTTEN, RECENT_ANSWERS_MAX
from engine.replies import Done, NotExecuted, Reply, WireAnswer

_decode = msgspec.json.Decoder(Reply).decode
# Made once: an expression of types builds an object each time it is met.
_WIRE_COMMANDS = (Authorize, Reverse, Present, Advise)
_REPEATABLE = (WireAnswer, Done)


class RecentAnswers:
    """Replies by command key, the oldest forgotten first."""

    def __init__(self, size: int = RECENT_ANSWERS_MAX) -> None:
        self._size = size
        self._known: dict[bytes, tuple[bytes | None, Reply] | Stored] = {}

    def remember(self, command_key: bytes, fingerprint: bytes | None, reply: Reply) -> None:
        """Keep a durable reply."""
        self._keep(command_key, (fingerprint, reply))

    def remember_stored(self, answers: Mapping[bytes, Stored]) -> None:
        """Keep replies read back from the journal, which gives the newest first. They stay in its JSON: few
        are ever asked for, and a card's whole representation takes more memory than the card."""
        for command_key, stored in reversed(list(answers.items())):
            self._keep(command_key, stored)

    def __contains__(self, command_key: bytes) -> bool:
        return command_key in self._known

    def known(self, command_key: bytes) -> Reply | None:
        """The stored reply, if it is remembered."""
        known = self._known.get(command_key)
        if known is None:
            return None
        return _decode(known.reply) if isinstance(known, Stored) else known[1]

    def repeat(self, command: Command) -> Reply | None:
        """The reply for a command that has been executed before, if it is remembered."""
        known = self._known.get(command.command_key)
        if known is None:
            return None
        again = (
            reply_from_journal(command, known) if isinstance(known, Stored) else reply_again(command, *known)
        )
        return self.still_true(command, again)

    def still_true(self, command: Command, reply: Reply) -> Reply:
        """``reply`` to ``command``, or 91 when it approves what its edge has undone since."""
        if (
            isinstance(command, Authorize)
            and isinstance(reply, WireAnswer)
            and approves(reply.response_code)
            and late_reversal_key(command.command_key) in self._known
        ):
            return WireAnswer(DEADLINE_EXCEEDED, reply.authorization_id, replayed=reply.replayed)
        return reply

    def _keep(self, command_key: bytes, answer: tuple[bytes | None, Reply] | Stored) -> None:
        # Anew at the end: what undoes a command has to be forgotten after it.
        self._known.pop(command_key, None)
        self._known[command_key] = answer
        if len(self._known) > self._size:
            # Many at once: a dict looks for its first key behind all that have been deleted.
            for oldest in list(islice(self._known, max(1, min(self._size // 8, ANSWERS_FORGOTTEN)))):
                del self._known[oldest]


def fingerprint_of(command: Command) -> bytes | None:
    """What honest repeats of a wire command share; REST commands have keys of their own instead."""
    return command.fingerprint if isinstance(command, _WIRE_COMMANDS) else None


def reply_again(command: Command, fingerprint: bytes | None, reply: Reply) -> Reply:
    """The stored reply, marked as such, or 94 when the same wire identity came with other content (wire
    case 2)."""
    if fingerprint != fingerprint_of(command):
        authorization_id = reply.authorization_id if isinstance(reply, WireAnswer) else ""
        return WireAnswer(DUPLICATE_CONFLICT, authorization_id, replayed=True)
    if isinstance(reply, _REPEATABLE):
        return msgspec.structs.replace(reply, replayed=True)
    return reply


def reply_from_journal(command: Command, stored: Stored) -> Reply:
    """The same for a reply in the journal's JSON."""
    return reply_again(command, stored.fingerprint, _decode(stored.reply))


KEY_REUSED = NotExecuted("key_reused")
