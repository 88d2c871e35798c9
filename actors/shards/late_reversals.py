"""Late reversals: an edge that has answered 91 to its network reverses the approval that arrives afterwards.

Several edges can handle the same message (0100 at one, its repeat 0101 at another). Each exchange has its own
command id under the common command key, and an edge that passes on an approval in time reverses nothing. An
approval is therefore reversed only when every exchange that may have passed it on was late: the *author*,
whose command was executed, and each repeat that got the stored approval. Until then the approval stands, and
a late reversal is answered with 21 (no action taken).

Notes beside the card's tombstones record the exchanges that got the approval and those that were late. They
are committed before the answer leaves, so the next owner of the card has them too.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from engine.commands import Authorize, Command, Reverse, is_message, key_of_message
from engine.ids import Derived, approval_code, derive
from engine.iso8583.identity import late_reversal_key
from engine.iso8583.respond import NO_ACTION, approves
from engine.limits import REPEATS_RECORDED_MAX
from engine.replies import Reply, WireAnswer

_GIVEN: Final = "g"
_LATE: Final = "w"
_AUTHOR: Final = "author"
_ANY: Final = "*"
"""Stands for any exchange: there were too many to record, and the approval stands for good."""


def is_repeated_approval(command: Command, reply: Reply) -> bool:
    """Whether ``reply``, stored for another exchange, approves the repeat ``command``."""
    return (
        isinstance(command, Authorize)
        and isinstance(reply, WireAnswer)
        and approves(reply.response_code)
        and not _is_author(command.id, bool(command.references), reply)
    )


def repeat_note(tombstones: Collection[str], repeat: Command) -> str | None:
    """The note that ``repeat`` gets the stored approval; ``None`` if it is recorded already."""
    key = repeat.command_key
    given = _noted(tombstones, _GIVEN, key)
    if repeat.id in given or _ANY in given:
        return None
    return _note(_GIVEN, key, repeat.id if len(given) < REPEATS_RECORDED_MAX else _ANY)


def late_reversal_target(command: Command) -> bytes | None:
    """The command key of the authorization that a late reversal of an edge reverses; ``None`` for every other
    command."""
    if not isinstance(command, Reverse) or command.command_key != command.fingerprint:
        return None
    if len(command.references) != 1 or not is_message(command.references[0]):
        return None
    target = key_of_message(command.references[0])
    return target if late_reversal_key(target) == command.command_key else None


def late_note(
    tombstones: Collection[str], reversal: Reverse, target: bytes, stored: Reply | None
) -> str | None:
    """The note that the exchange of ``reversal`` was late, if another exchange may have passed on the
    approval ``stored``. "" if it is recorded already, or if this exchange never got the approval. ``None`` if
    the reversal must be executed."""
    if not isinstance(stored, WireAnswer) or not approves(stored.response_code):
        return None
    exchange = derive(reversal.id, Derived.LATE_REVERSAL)
    if _is_author(exchange, reversal.increment_minor is not None, stored):
        exchange = _AUTHOR
    given = _noted(tombstones, _GIVEN, target) | {_AUTHOR}
    late = _noted(tombstones, _LATE, target)
    if exchange not in given:
        return ""
    if given <= late | {exchange}:
        return None
    return "" if exchange in late else _note(_LATE, target, exchange)


def is_note(tombstone: str) -> bool:
    """Whether a card's tombstone is one of these notes."""
    return tombstone.startswith((_GIVEN + ":", _LATE + ":"))


def no_action(command: Command) -> WireAnswer:
    """The reply to a reversal of an approval that stands."""
    return WireAnswer(NO_ACTION, command.id)


def _is_author(exchange: str, increments: bool, stored: WireAnswer) -> bool:
    """Whether the stored approval is that of the command of ``exchange``. The answer to an increment has the
    id of the authorization that it raises, but an approval code that is derived from its own id."""
    if exchange == stored.authorization_id:
        return True
    return increments and approval_code(exchange) == stored.approval_code


def _note(kind: str, key: bytes, exchange: str) -> str:
    return f"{kind}:{key.hex()}:{exchange}"


def _noted(tombstones: Collection[str], kind: str, key: bytes) -> set[str]:
    start = _note(kind, key, "")
    return {name.removeprefix(start) for name in tombstones if name.startswith(start)}
