"""Reversals (0400, 0420): what is given back, and of what (wire cases 5 to 11).

A reversal names the very message that it undoes (DE90), the life that this belongs to (DE48 tag 04), or both.
The first message of a sale stands for all of it, an increment for itself alone. A message that is named and
has not come yet leaves a tombstone, and raises or holds nothing when it comes.

A reversal undoes a promise, never money that has moved: what was presented, of a sale or of a refund, stays
(cases 10, 26). Networks undo a cleared transaction with a presentment of its own.
"""

from __future__ import annotations

import msgspec

from engine.authorization import gateway, late
from engine.authorization.effects import Effect, HoldClosed, HoldResized, IncrementSet, TombstoneSet
from engine.authorization.lifecycle import OK, LifecycleResult, Record, Remark, moved, settlement_of, transfer
from engine.authorization.usage_reversal import GivenBack, count_back
from engine.cards.account import Account
from engine.cards.authorization import Authorization, Closed, has_lapsed, names, open_hold, promised_minor
from engine.cards.card import Card, undone_mark
from engine.cards.hold import Hold
from engine.commands import Reverse, is_message
from engine.programmes.programme import ProgrammeConfig


def reverse(
    command: Reverse,
    card: Card,
    original: Authorization | None,
    account: Account | None,
    programme: ProgrammeConfig,
    now_ms: int,
) -> LifecycleResult:
    """Give back what is held, all of it or down to DE95. Accepted whatever it finds."""
    if command.late:
        return _reverse_late(command, card, original, account, programme, now_ms)
    if original is None:
        record = Record("reversal", 0, 0, "unknown_original")
        return LifecycleResult(OK, (TombstoneSet(command.references, now_ms),), record)
    outcome = _reverse_known(command, original, account, programme)
    outcome = late.with_reversal(command, card, original, outcome, now_ms)
    unheard = _unheard(command, original)
    if not unheard:
        return outcome
    return msgspec.structs.replace(outcome, effects=(*outcome.effects, TombstoneSet(unheard, now_ms)))


def _reverse_late(
    command: Reverse,
    card: Card,
    original: Authorization | None,
    account: Account | None,
    programme: ProgrammeConfig,
    now_ms: int,
) -> LifecycleResult:
    """An edge's own reversal: it does not stop the network's own approval, before or after it."""
    stands = late.stands(command, card, original, account, now_ms)
    if stands is not None:
        return stands
    if original is None:
        marks = tuple(map(undone_mark, command.references))
        return LifecycleResult(
            OK, (TombstoneSet(marks, now_ms),), Record("reversal", 0, 0, "unknown_original")
        )
    lapsed = has_lapsed(original, account) and command.increment_minor is None
    if original.decline_reason is not None or lapsed:
        return LifecycleResult(OK, (), Record("reversal", 0, 0, "nothing_held"))
    outcome = _reverse_known(command, original, account, programme)
    return late.with_undone_mark(original, outcome, now_ms)


def _unheard(command: Reverse, original: Authorization) -> tuple[str, ...]:
    """The message in DE90, if it has not come yet: the network has named its transaction as well."""
    messages = tuple(name for name in command.references if is_message(name))
    known = {*names(original), *original.raised}
    return messages if known.isdisjoint(messages) else ()


def _reverse_known(
    command: Reverse, original: Authorization, account: Account | None, programme: ProgrammeConfig
) -> LifecycleResult:
    if original.kind == "purchase" and original.decline_reason is not None:
        return _reverse_declined(command, original)
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
        return LifecycleResult(OK, (), Record("reversal", 0, hold.amount_minor))
    given_back_minor = hold.amount_minor - target_minor
    counted = count_back(original, given_back_minor, _count(original, target_minor))
    effects = _lowered(original, hold, target_minor, counted)
    record = Record("reversal", given_back_minor, target_minor, uncounted=counted.uncounted)
    return LifecycleResult(OK, effects, record)


def _count(original: Authorization, target_minor: int) -> int:
    """A sale of which nothing is held or cleared any more does not count as a purchase."""
    return -1 if target_minor == 0 and not original.cleared_minor else 0


def _lowered(
    original: Authorization, hold: Hold, target_minor: int, counted: GivenBack
) -> tuple[Effect, ...]:
    """The hold gives back all but ``target_minor``."""
    whole = target_minor == 0
    ended: Effect = (
        HoldClosed(hold.id, "released") if whole else HoldResized(hold.id, target_minor, hold.expires_ms)
    )
    move = moved(
        original,
        reversed_minor=hold.amount_minor - target_minor,
        held_minor=target_minor,
        closed="released" if whole else None,
    )
    return (*counted.effects, ended, move)


def _reverse_increment(
    command: Reverse, name: str, original: Authorization, account: Account | None
) -> LifecycleResult:
    """One increment is taken back, all of it or down to DE95, and nothing else of its transaction."""
    increment = original.raised[name]
    left_minor = min(command.remaining_minor or 0, increment.left_minor)
    asked_minor = increment.left_minor - left_minor
    hold = open_hold(original, account)
    if hold is None or not asked_minor:
        held_minor = hold.amount_minor if hold is not None else 0
        remark: Remark | None = None if hold is not None else "nothing_held"
        unchanged = IncrementSet(name, left_minor, increment.day, increment.counted_minor)
        forgone = () if hold is not None else _forgone(original, account, asked_minor)
        record = Record("reversal", 0, held_minor, remark, name, left_minor)
        return LifecycleResult(OK, (*forgone, unchanged), record)
    target_minor = max(0, hold.amount_minor - asked_minor)
    given_minor = hold.amount_minor - target_minor
    counted = count_back(original, given_minor, _count(original, target_minor), name, left_minor)
    record = Record(
        "reversal", given_minor, target_minor, None, name, left_minor, uncounted=counted.uncounted
    )
    return LifecycleResult(OK, _lowered(original, hold, target_minor, counted), record)


def _forgone(original: Authorization, account: Account | None, given_minor: int) -> tuple[Effect, ...]:
    """Of a hold that has lapsed, so much less is to be held again."""
    if not given_minor or not has_lapsed(original, account):
        return ()
    left_minor = max(0, original.remainder_minor - given_minor)
    closed: Closed | None = None if left_minor else "released"
    return (moved(original, held_minor=0, remainder_minor=left_minor, closed=closed),)


def _reverse_declined(command: Reverse, original: Authorization) -> LifecycleResult:
    """Nothing to release of a sale that was declined here; but if the network approves it later itself, in an
    advice, that is over too: the order of the two does not matter."""
    record = Record("reversal", 0, 0, "nothing_held")
    if original.closed is not None or command.remaining_minor or command.increment_minor is not None:
        return LifecycleResult(OK, (), record)
    return LifecycleResult(OK, (moved(original, held_minor=0, closed="released"),), record)


def _reverse_unheld(command: Reverse, original: Authorization, account: Account | None) -> LifecycleResult:
    """Nothing to release; but a hold that had lapsed is over now, and no increment holds it again."""
    record = Record("reversal", 0, 0, "nothing_held")
    if not has_lapsed(original, account) or command.increment_minor is not None:
        return LifecycleResult(OK, (), record)
    left_minor = min(command.remaining_minor or 0, original.remainder_minor)
    closed: Closed | None = None if left_minor else "released"
    move = moved(original, held_minor=0, remainder_minor=left_minor, closed=closed)
    return LifecycleResult(OK, (move,), record)


def _left_by(command: Reverse, hold: Hold) -> int:
    """What a reversal leaves held: all but one increment, what DE95 says, or nothing."""
    if command.increment_minor is not None:
        return max(0, hold.amount_minor - command.increment_minor)
    return command.remaining_minor or 0


def _reverse_refund(command: Reverse, original: Authorization, programme: ProgrammeConfig) -> LifecycleResult:
    """The merchant takes a refund back, all of it or down to DE95: what was credited and not presented yet is
    debited, once."""
    promised = promised_minor(original)
    taken_minor = promised - min(command.remaining_minor or 0, promised)
    if not taken_minor:
        return LifecycleResult(OK, (), Record("reversal", 0, 0, None if promised else "nothing_held"))
    effects = (
        transfer(command.id, settlement_of(programme), "debit", taken_minor, original.id),
        moved(original, reversed_minor=taken_minor, held_minor=0),
    )
    return LifecycleResult(OK, effects, Record("reversal", taken_minor))
