"""Late reversals: an edge that told its network 91 reverses the approval that came afterwards.

The same message can be with several edges (0100 at one, its repeat 0101 at another). Each exchange has a
command id of its own under the one command key, and an edge that gives an approval in time reverses nothing.
So an approval is taken back only when every exchange that may have given it has been late: the *author*,
whose command was executed, and each repeat that got the stored approval. Until then the approval stands, and
the reversal is answered with 21 (no action taken).

Who got the approval, and who was late, is noted beside the card's tombstones, in a commit before the answer
leaves: the next owner knows it too.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from engine.commands import Authorize, Command, Reverse, is_message, key_of_message
from engine.ids import Derived, approval_code, derive
from engine.iso8583.identity import late_reversal_key
from engine.iso8583.respond import NO_ACTION, approves
from engine.limits import REPEATS_NOTED_MAX
from engine.replies import Reply, WireAnswer

_GIVEN: Final = "g"
_LATE: Final = "w"
_AUTHOR: Final = "author"
_ANY: Final = "*"
"""In place of an exchange: there were too many to note, and the approval stands for good."""


def is_repeated_approval(command: Command, reply: Reply) -> bool:
    """Whether ``reply``, stored for another exchange, approves the repeat ``command``."""
    return (
        isinstance(command, Authorize)
        and isinstance(reply, WireAnswer)
        and approves(reply.response_code)
        and not _is_author(command.id, bool(command.references), reply)
    )


def note_given(tombstones: Collection[str], repeat: Command) -> str | None:
    """The note that ``repeat`` gets the stored approval; ``None`` when it is there already."""
    key = repeat.command_key
    given = _noted(tombstones, _GIVEN, key)
    if repeat.id in given or _ANY in given:
        return None
    return _note(_GIVEN, key, repeat.id if len(given) < REPEATS_NOTED_MAX else _ANY)


def undone_by(command: Command) -> bytes | None:
    """The command key of the authorization that an edge's own reversal undoes; ``None`` for every other
    command."""
    if not isinstance(command, Reverse) or command.command_key != command.fingerprint:
        return None
    if len(command.references) != 1 or not is_message(command.references[0]):
        return None
    undone = key_of_message(command.references[0])
    return undone if late_reversal_key(undone) == command.command_key else None


def judge(tombstones: Collection[str], reversal: Reverse, undone: bytes, stored: Reply | None) -> str | None:
    """The note that the exchange of ``reversal`` was late, when the approval ``stored`` may still be with a
    network through another exchange; "" when that has been noted before, or says nothing. ``None``: the
    reversal is to be executed."""
    if not isinstance(stored, WireAnswer) or not approves(stored.response_code):
        return None
    exchange = derive(reversal.id, Derived.UNDO)
    if _is_author(exchange, reversal.increment_minor is not None, stored):
        exchange = _AUTHOR
    given = _noted(tombstones, _GIVEN, undone) | {_AUTHOR}
    late = _noted(tombstones, _LATE, undone)
    if exchange not in given:
        return ""
    if given <= late | {exchange}:
        return None
    return "" if exchange in late else _note(_LATE, undone, exchange)


def is_note(tombstone: str) -> bool:
    """Whether a card's tombstone is one of these notes."""
    return tombstone.startswith((_GIVEN + ":", _LATE + ":"))


def no_action(command: Command) -> WireAnswer:
    """The reply to a reversal of an approval that stands."""
    return WireAnswer(NO_ACTION, command.id)


def _is_author(exchange: str, increments: bool, stored: WireAnswer) -> bool:
    """Whether the stored approval came of the command of ``exchange``. An increment is answered with the id
    of the authorization that it raises, but its approval code is made from its own id."""
    if exchange == stored.authorization_id:
        return True
    return increments and approval_code(exchange) == stored.approval_code


def _note(kind: str, key: bytes, exchange: str) -> str:
    return f"{kind}:{key.hex()}:{exchange}"


def _noted(tombstones: Collection[str], kind: str, key: bytes) -> set[str]:
    start = _note(kind, key, "")
    return {name.removeprefix(start) for name in tombstones if name.startswith(start)}
