"""Late reversals: an edge that told its network 91 reverses the approval that came afterwards.

The same message can be with several edges (0100 at one, its repeat 0101 at another). Each exchange has a
command id of its own under the one command key, and an edge that gives an approval in time reverses nothing.
So an approval is taken back only when every exchange that got it has been late: the *author*, whose command
was executed, and each repeat that got the stored approval. Until then the approval stands, and the reversal
is answered with 21 (no action taken) and not kept.

What is known here is lost with the owner. A new owner takes it that the author's edge gave its approval in
time, unless that edge itself reverses.
"""

from __future__ import annotations

from actors.cards.answers import RecentAnswers
from engine.commands import Authorize, Command, Reverse, is_message, key_of_message
from engine.ids import Derived, approval_code, derive
from engine.iso8583.identity import undo_key
from engine.iso8583.respond import NO_ACTION, approves
from engine.limits import LATE_KEYS_MAX
from engine.replies import Answer, Reply


class LateReversals:
    """Which approvals of one host may be taken back."""

    def __init__(self, answers: RecentAnswers, size: int = LATE_KEYS_MAX) -> None:
        self._answers = answers
        self._size = size
        self._repeats: dict[bytes, set[str]] = {}
        """Command ids of repeats that got the stored approval, by command key."""
        self._withdrawn: dict[bytes, None] = {}
        """Keys whose author has reversed while a repeat had the approval."""

    def given(self, command: Command, reply: Reply) -> None:
        """A repeat of an executed ``command`` gets ``reply``."""
        if isinstance(command, Authorize) and isinstance(reply, Answer) and approves(reply.response_code):
            self._repeats.setdefault(command.command_key, set()).add(command.id)
            _forget_oldest(self._repeats, self._size)

    def stands(self, reversal: Reverse, undone: bytes) -> bool:
        """Whether the approval ``undone`` may be with a network, so that ``reversal`` must change nothing."""
        stored = self._answers.known(undone)
        if not isinstance(stored, Answer) or not approves(stored.response_code):
            return False
        exchange = derive(reversal.id, Derived.UNDO)
        repeats = self._repeats.get(undone, set())
        repeats.discard(exchange)
        if _is_author(reversal, exchange, stored):
            self._withdrawn[undone] = None
            _forget_oldest(self._withdrawn, self._size)
        if not repeats:
            self._repeats.pop(undone, None)
        return bool(repeats) or undone not in self._withdrawn


def undone_by(command: Command) -> bytes | None:
    """The command key of the authorization that an edge's own reversal undoes; ``None`` for every other
    command."""
    if not isinstance(command, Reverse) or command.command_key != command.fingerprint:
        return None
    if len(command.references) != 1 or not is_message(command.references[0]):
        return None
    undone = key_of_message(command.references[0])
    return undone if undo_key(undone) == command.command_key else None


def no_action(command: Command) -> Answer:
    """The reply to a reversal of an approval that stands."""
    return Answer(NO_ACTION, command.id)


def _is_author(reversal: Reverse, exchange: str, stored: Answer) -> bool:
    """Whether the stored approval came of the command of ``exchange``. An increment is answered with the id
    of the authorization that it raises, but its approval code is made from its own id."""
    if exchange == stored.authorization_id:
        return True
    return reversal.increment_minor is not None and approval_code(exchange) == stored.approval_code


def _forget_oldest(known: dict[bytes, set[str]] | dict[bytes, None], size: int) -> None:
    if len(known) > size:
        del known[next(iter(known))]
