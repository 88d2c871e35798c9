"""Reversals (0400, 0420): what is given back, and of what (wire cases 5 to 11).

A reversal names the very message that it undoes (DE90), the life that this belongs to (DE48 tag 04), or both.
The first message of a sale stands for all of it, an increment for itself alone. What is named and has not
come yet leaves a tombstone, and raises or holds nothing when it comes.
"""

from __future__ import annotations

import msgspec

from engine import gateway
from engine.account import Account
from engine.authorization import Authorization, Closed, has_lapsed, names, open_hold
from engine.commands import Reverse, is_message
from engine.effects import Counted, Effect, HoldClosed, HoldResized, IncrementSet, TombstoneSet
from engine.hold import Hold
from engine.lifecycle import OK, FollowUp, Record, moved, settlement_of, transfer
from engine.programme import ProgrammeConfig


def reverse(
    command: Reverse, original: Authorization | None, account: Account | None, programme: ProgrammeConfig
) -> FollowUp:
    """Give back what is held, all of it or down to DE95. Accepted whatever it finds."""
    if original is None:
        record = Record("reversal", 0, 0, "unknown_original")
        return FollowUp(OK, (TombstoneSet(command.references),), record)
    outcome = _reverse_known(command, original, account, programme)
    unheard = _unheard(command, original)
    if not unheard:
        return outcome
    return msgspec.structs.replace(outcome, effects=(*outcome.effects, TombstoneSet(unheard)))


def _unheard(command: Reverse, original: Authorization) -> tuple[str, ...]:
    """The message in DE90, if it has not come yet: the network has named its transaction as well."""
    messages = tuple(name for name in command.references if is_message(name))
    known = {*names(original), *original.raised}
    return messages if known.isdisjoint(messages) else ()


def _reverse_known(
    command: Reverse, original: Authorization, account: Account | None, programme: ProgrammeConfig
) -> FollowUp:
    if programme.mode == "gateway":
        return gateway.reverse(command, original)
    if original.kind == "refund" and original.decline_reason is None:
        return _reverse_refund(command, original, programme)
    increment = next((name for name in command.references if name in original.raised), None)
    if increment is not None:
        return _reverse_increment(command, increment, original, account)
    hold = open_hold(original, account)
    if hold is None:
        return _reverse_unheld(command, original, account)
    target_minor = min(_left_by(command, hold), hold.amount_minor)
    if target_minor == hold.amount_minor:
        return FollowUp(OK, (), Record("reversal", 0, hold.amount_minor))
    given_back_minor = hold.amount_minor - target_minor
    return FollowUp(
        OK, _lowered(original, hold, target_minor), Record("reversal", given_back_minor, target_minor)
    )


def _lowered(original: Authorization, hold: Hold, target_minor: int) -> tuple[Effect, ...]:
    """The hold gives back all but ``target_minor``; the day's counters follow, on the original's day."""
    given_back_minor = hold.amount_minor - target_minor
    whole = target_minor == 0
    ended: Effect = (
        HoldClosed(hold.id, "released") if whole else HoldResized(hold.id, target_minor, hold.expires_ms)
    )
    never_was = whole and not original.cleared_minor
    return (
        Counted(original.day, -given_back_minor, -1 if never_was else 0),
        ended,
        moved(
            original,
            reversed_minor=given_back_minor,
            held_minor=target_minor,
            closed="released" if whole else None,
        ),
    )


def _reverse_increment(
    command: Reverse, name: str, original: Authorization, account: Account | None
) -> FollowUp:
    """One increment is taken back, all of it or down to DE95, and nothing else of its transaction."""
    raised_minor = original.raised[name]
    left_minor = min(command.remaining_minor or 0, raised_minor)
    given_minor = raised_minor - left_minor
    hold = open_hold(original, account)
    if hold is not None:
        target_minor = max(0, hold.amount_minor - given_minor)
        record = Record("reversal", hold.amount_minor - target_minor, target_minor, None, name, left_minor)
        lowered = _lowered(original, hold, target_minor) if given_minor else ()
    else:
        record = Record("reversal", 0, 0, "nothing_held", name, left_minor)
        lowered = _forgone(original, account, given_minor)
    return FollowUp(OK, (*lowered, IncrementSet(name, left_minor)), record)


def _forgone(original: Authorization, account: Account | None, given_minor: int) -> tuple[Effect, ...]:
    """Of a hold that has lapsed, so much less is to be held again."""
    if not given_minor or not has_lapsed(original, account):
        return ()
    left_minor = max(0, original.remainder_minor - given_minor)
    closed: Closed | None = None if left_minor else "released"
    return (moved(original, held_minor=0, remainder_minor=left_minor, closed=closed),)


def _reverse_unheld(command: Reverse, original: Authorization, account: Account | None) -> FollowUp:
    """Nothing to release; but what had lapsed is now over, and no increment holds it again."""
    record = Record("reversal", 0, 0, "nothing_held")
    if not has_lapsed(original, account) or command.increment_minor is not None:
        return FollowUp(OK, (), record)
    left_minor = min(command.remaining_minor or 0, original.remainder_minor)
    closed: Closed | None = None if left_minor else "released"
    move = moved(original, held_minor=0, remainder_minor=left_minor, closed=closed)
    return FollowUp(OK, (move,), record)


def _left_by(command: Reverse, hold: Hold) -> int:
    """What a reversal leaves held: all but one increment, what DE95 says, or nothing."""
    if command.increment_minor is not None:
        return max(0, hold.amount_minor - command.increment_minor)
    return command.remaining_minor or 0


def _reverse_refund(command: Reverse, original: Authorization, programme: ProgrammeConfig) -> FollowUp:
    """The merchant takes a refund back: what was credited is debited, once."""
    left_minor = original.approved_minor - original.reversed_minor
    if left_minor <= 0:
        return FollowUp(OK, (), Record("reversal", 0, 0, "nothing_held"))
    effects = (
        transfer(command.id, settlement_of(programme), "debit", left_minor, original.id),
        moved(original, reversed_minor=left_minor, held_minor=0),
    )
    return FollowUp(OK, effects, Record("reversal", left_minor))
