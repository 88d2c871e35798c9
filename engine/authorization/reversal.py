"""Reversals (0400, 0420) in managed mode; cases 5 to 11 of ``ops/docs/WIRE.md``.

A reversal names the message to reverse (DE90), its network transaction id (DE48 tag 04), or both. To name
the first message of a sale reverses the whole sale; to name an increment reverses only the increment. If the
named message has not arrived, the reversal leaves a tombstone: when it arrives, nothing is held for it.

A reversal releases an approved amount, never money that was posted (cases 10 and 26). Networks reverse a
cleared transaction with another presentment.
"""

from __future__ import annotations

import msgspec

from engine.authorization import gateway, late
from engine.authorization.effects import Effect, HoldClosed, HoldResized, IncrementSet, TombstoneSet
from engine.authorization.follow_up import (
    OK,
    FollowUpRecord,
    FollowUpResult,
    MatchResult,
    settlement_account_id,
    transfer,
    updated,
)
from engine.authorization.usage_reversal import UsageReversal, reverse_usage
from engine.cards.account import Account
from engine.cards.authorization import (
    Authorization,
    Closed,
    has_lapsed,
    open_hold,
    references_of,
    unpresented_refund_minor,
)
from engine.cards.authorization_states import state_of
from engine.cards.card import Card, edge_reversal_mark
from engine.cards.hold import Hold
from engine.commands import Reverse, is_message
from engine.currencies import billing_share_minor
from engine.programmes.programme import ProgrammeConfig


def reverse(
    command: Reverse,
    card: Card,
    original: Authorization | None,
    account: Account | None,
    programme: ProgrammeConfig,
    now_ms: int,
) -> FollowUpResult:
    """Release the held amount, all of it or down to DE95. A reversal is always accepted."""
    command = _in_card_currency(command, original)
    if command.late:
        return _reverse_by_edge(command, card, original, account, programme, now_ms)
    if original is None:
        record = FollowUpRecord("reversal", 0, 0, "unknown_original")
        return FollowUpResult(OK, (TombstoneSet(command.references, now_ms),), record)
    result = _reverse_known(command, original, account, programme)
    result = late.with_reversal(command, card, original, result, now_ms)
    missing = _message_not_received(command, original)
    if not missing:
        return result
    return msgspec.structs.replace(result, effects=(*result.effects, TombstoneSet(missing, now_ms)))


def _in_card_currency(command: Reverse, original: Authorization | None) -> Reverse:
    """``command`` with DE95 in the currency of the card. Networks state it in the currency of the purchase,
    so the rest of a converted purchase is converted in proportion to it."""
    if not command.remaining_minor or original is None or original.merchant_amount is None:
        return command
    if command.remaining_currency == original.currency:
        return command
    remaining_minor = billing_share_minor(
        command.remaining_minor, original.merchant_amount, original.requested_minor
    )
    return msgspec.structs.replace(command, remaining_minor=remaining_minor)


def _reverse_by_edge(
    command: Reverse,
    card: Card,
    original: Authorization | None,
    account: Account | None,
    programme: ProgrammeConfig,
    now_ms: int,
) -> FollowUpResult:
    """An edge's own reversal. It cancels neither an earlier nor a later approval by the network."""
    replaced = late.replaced_by_network(command, card, original, account, now_ms)
    if replaced is not None:
        return replaced
    if original is None:
        marks = tuple(map(edge_reversal_mark, command.references))
        record = FollowUpRecord("reversal", 0, 0, "unknown_original")
        return FollowUpResult(OK, (TombstoneSet(marks, now_ms),), record)
    lapsed = has_lapsed(original, account) and command.increment_minor is None
    if original.decline_reason is not None or lapsed:
        return _nothing_held()
    result = _reverse_known(command, original, account, programme)
    return late.with_edge_reversal_mark(original, result, now_ms)


def _nothing_held() -> FollowUpResult:
    return FollowUpResult(OK, (), FollowUpRecord("reversal", 0, 0, "nothing_held"))


def _message_not_received(command: Reverse, original: Authorization) -> tuple[str, ...]:
    """The message in DE90 if it has not come yet; ``original`` was found by the network transaction id."""
    messages = tuple(name for name in command.references if is_message(name))
    received = {*references_of(original), *original.increments}
    return messages if received.isdisjoint(messages) else ()


def _reverse_known(
    command: Reverse, original: Authorization, account: Account | None, programme: ProgrammeConfig
) -> FollowUpResult:
    state = state_of(original, account)
    if state in ("declined", "declined_and_reversed"):
        return _reverse_declined(command, original)
    if programme.mode == "gateway":
        return gateway.reverse(command, original)
    if state in ("refund_open", "refund_presented", "refund_reversed"):
        return _reverse_refund(command, original, programme)
    increment = next((name for name in command.references if name in original.increments), None)
    if increment is not None:
        return _reverse_increment(command, increment, original, account)
    hold = open_hold(original, account)
    if hold is None:
        return _reverse_without_hold(command, original, account)
    target_minor = min(_remaining_minor(command, hold), hold.amount_minor)
    if target_minor == hold.amount_minor:
        return FollowUpResult(OK, (), FollowUpRecord("reversal", 0, hold.amount_minor))
    released_minor = hold.amount_minor - target_minor
    usage = reverse_usage(original, released_minor, _purchase_count_change(original, target_minor))
    effects = _lower_hold(original, hold, target_minor, usage)
    record = FollowUpRecord("reversal", released_minor, target_minor, uncounted=usage.uncounted)
    return FollowUpResult(OK, effects, record)


def _purchase_count_change(original: Authorization, target_minor: int) -> int:
    """-1 if nothing of the sale remains held or cleared: it no longer counts as a purchase."""
    return -1 if target_minor == 0 and not original.cleared_minor else 0


def _lower_hold(
    original: Authorization, hold: Hold, target_minor: int, usage: UsageReversal
) -> tuple[Effect, ...]:
    """Lower the hold to ``target_minor``, and close it at 0."""
    whole = target_minor == 0
    lowered: Effect = (
        HoldClosed(hold.id, "released") if whole else HoldResized(hold.id, target_minor, hold.expires_ms)
    )
    update = updated(
        original,
        reversed_minor=hold.amount_minor - target_minor,
        held_minor=target_minor,
        closed="released" if whole else None,
    )
    return (*usage.effects, lowered, update)


def _reverse_increment(
    command: Reverse, name: str, original: Authorization, account: Account | None
) -> FollowUpResult:
    """Reverse one increment, all of it or down to DE95; the rest of its authorization stays."""
    increment = original.increments[name]
    left_minor = min(command.remaining_minor or 0, increment.left_minor)
    requested_minor = increment.left_minor - left_minor
    hold = open_hold(original, account)
    if hold is None or not requested_minor:
        held_minor = hold.amount_minor if hold is not None else 0
        remark: MatchResult | None = None if hold is not None else "nothing_held"
        unchanged = IncrementSet(name, left_minor, increment.day, increment.counted_minor)
        lowered = () if hold is not None else _lower_lapsed(original, account, requested_minor)
        record = FollowUpRecord("reversal", 0, held_minor, remark, name, left_minor)
        return FollowUpResult(OK, (*lowered, unchanged), record)
    target_minor = max(0, hold.amount_minor - requested_minor)
    released_minor = hold.amount_minor - target_minor
    usage = reverse_usage(
        original, released_minor, _purchase_count_change(original, target_minor), name, left_minor
    )
    record = FollowUpRecord(
        "reversal", released_minor, target_minor, None, name, left_minor, uncounted=usage.uncounted
    )
    return FollowUpResult(OK, _lower_hold(original, hold, target_minor, usage), record)


def _lower_lapsed(original: Authorization, account: Account | None, amount_minor: int) -> tuple[Effect, ...]:
    """Lower the amount that an increment or an advice would hold again for a lapsed hold."""
    if not amount_minor or not has_lapsed(original, account):
        return ()
    left_minor = max(0, original.remainder_minor - amount_minor)
    closed: Closed | None = None if left_minor else "released"
    return (updated(original, held_minor=0, remainder_minor=left_minor, closed=closed),)


def _reverse_declined(command: Reverse, original: Authorization) -> FollowUpResult:
    """Close a declined sale, so that a later advice of the network's own approval holds nothing: the order of
    reversal and advice does not matter."""
    if original.closed is not None or command.remaining_minor or command.increment_minor is not None:
        return _nothing_held()
    update = updated(original, held_minor=0, closed="released")
    return FollowUpResult(OK, (update,), FollowUpRecord("reversal", 0, 0, "nothing_held"))


def _reverse_without_hold(
    command: Reverse, original: Authorization, account: Account | None
) -> FollowUpResult:
    """Close a lapsed hold, so that no increment holds its amount again; nothing is released."""
    if not has_lapsed(original, account) or command.increment_minor is not None:
        return _nothing_held()
    left_minor = min(command.remaining_minor or 0, original.remainder_minor)
    closed: Closed | None = None if left_minor else "released"
    update = updated(original, held_minor=0, remainder_minor=left_minor, closed=closed)
    return FollowUpResult(OK, (update,), FollowUpRecord("reversal", 0, 0, "nothing_held"))


def _remaining_minor(command: Reverse, hold: Hold) -> int:
    """The amount that stays held: all except one increment, the amount in DE95, or nothing."""
    if command.increment_minor is not None:
        return max(0, hold.amount_minor - command.increment_minor)
    return command.remaining_minor or 0


def _reverse_refund(command: Reverse, original: Authorization, programme: ProgrammeConfig) -> FollowUpResult:
    """Debit the credited and unpresented amount of a refund, all of it or down to DE95."""
    unpresented_minor = unpresented_refund_minor(original)
    debited_minor = unpresented_minor - min(command.remaining_minor or 0, unpresented_minor)
    if not debited_minor:
        return FollowUpResult(
            OK, (), FollowUpRecord("reversal", 0, 0, None if unpresented_minor else "nothing_held")
        )
    effects = (
        transfer(command.id, settlement_account_id(programme), "debit", debited_minor, original.id),
        updated(original, reversed_minor=debited_minor, held_minor=0),
    )
    return FollowUpResult(OK, effects, FollowUpRecord("reversal", debited_minor))
