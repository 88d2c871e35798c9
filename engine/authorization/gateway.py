"""Gateway mode: the life of an authorization whose programme keeps its own ledger (``ops/docs/GATEWAY.md``).

The counterpart of ``increment``, ``reversal``, ``presentment`` and ``advice`` without holds, balances and
ledger entries. ``remainder_minor`` is the open amount, which may still be presented: increments raise it,
presentments and reversals lower it, and it never expires, because the programme releases its own reservation.
Usage counts as in managed mode.
"""

from __future__ import annotations

import msgspec

from engine.authorization.advice import (
    advised,
    is_force_posted_in_full,
    nothing_held,
    restored_minor,
    unposted_minor,
)
from engine.authorization.effects import (
    AuthorizationOpened,
    AuthorizationUpdated,
    Effect,
    IncrementSet,
    UsageCounted,
)
from engine.authorization.follow_up import (
    INVALID_AMOUNT,
    OK,
    SENDER_NOT_PERMITTED,
    WRONG_CURRENCY,
    FollowUpRecord,
    FollowUpResult,
    MatchResult,
    updated,
)
from engine.authorization.presentment import accepts, unmatched
from engine.authorization.usage_reversal import reverse_usage
from engine.cards.authorization import Authorization, Closed, gateway_open_minor
from engine.cards.authorization_states import is_reversed_by_edge, permits, state_of
from engine.cards.card import Card
from engine.commands import Advise, Authorize, Present, Reverse, reference_of_message
from engine.decision.decide import Decision


def increment(
    command: Authorize, decision: Decision, original: Authorization, reversed_early: bool
) -> tuple[Effect, ...]:
    """Raise the open amount. An increment whose reversal came first is approved and reversed in one
    update."""
    delta_minor = decision.approved_minor
    reversed_minor = delta_minor if reversed_early else 0
    update = updated(
        original,
        approved_minor=delta_minor,
        reversed_minor=reversed_minor,
        held_minor=0,
        remainder_minor=original.remainder_minor + delta_minor - reversed_minor,
    )
    counted_minor = 0 if reversed_early else delta_minor
    name = reference_of_message(command.command_key)
    increment_set = IncrementSet(name, delta_minor - reversed_minor, decision.day, counted_minor)
    if reversed_early:
        return (update, increment_set)
    return (UsageCounted(decision.day, delta_minor, 0), update, increment_set)


# --- reversals --------------------------------------------------------------------------------------------


def reverse(command: Reverse, original: Authorization) -> FollowUpResult:
    """Lower the open amount of a sale or a refund, to 0 or to DE95; for an increment, by its amount. Cleared
    amounts stay."""
    open_minor = gateway_open_minor(original)
    name = next((name for name in command.references if name in original.increments), None)
    if name is None:
        released_minor = open_minor - min(_remaining_minor(command, open_minor), open_minor)
        left_minor = None
    else:
        increment_minor = original.increments[name].left_minor
        left_minor = min(command.remaining_minor or 0, increment_minor)
        released_minor = min(increment_minor - left_minor, open_minor)
    remark: MatchResult | None = None if open_minor else "nothing_held"
    record = FollowUpRecord("reversal", released_minor, 0, remark, name, left_minor)
    if released_minor:
        return _release(original, released_minor, record)
    if name is None or left_minor is None:
        return FollowUpResult(OK, (), record)
    earlier = original.increments[name]
    return FollowUpResult(OK, (IncrementSet(name, left_minor, earlier.day, earlier.counted_minor),), record)


def _remaining_minor(command: Reverse, open_minor: int) -> int:
    """The amount that stays open: all except one increment, the amount in DE95, or nothing."""
    if command.increment_minor is not None:
        return max(0, open_minor - command.increment_minor)
    return command.remaining_minor or 0


def _release(original: Authorization, released_minor: int, record: FollowUpRecord) -> FollowUpResult:
    """Lower the open amount and the usage; a refund never counted."""
    left_minor = original.remainder_minor - released_minor
    update = updated(
        original,
        reversed_minor=released_minor,
        held_minor=0,
        remainder_minor=left_minor,
        closed=None if left_minor else _closed(original),
    )
    if original.kind == "refund":
        return FollowUpResult(OK, (update,), record)
    count = -1 if not left_minor and not original.cleared_minor else 0
    name, left = record.increment, record.increment_left_minor or 0
    usage = reverse_usage(original, released_minor, count, name, left)
    record = msgspec.structs.replace(record, uncounted=usage.uncounted)
    return FollowUpResult(OK, (*usage.effects, update), record)


def _closed(original: Authorization) -> Closed:
    """The end of an authorization with nothing open: captured if any part was cleared."""
    return "captured" if original.cleared_minor else "released"


# --- presentments -----------------------------------------------------------------------------------------


def present(command: Present, card: Card, original: Authorization | None, day: str) -> FollowUpResult:
    """Lower the open amount. The programme receives every presentment with its own amount, even above the
    authorized one."""
    if command.amount_minor <= 0:
        return FollowUpResult(INVALID_AMOUNT)
    if command.currency != card.currency:
        return FollowUpResult(WRONG_CURRENCY)
    if original is None or not accepts(original, None, command.kind):
        if command.matched_only and command.kind == "purchase":
            return FollowUpResult(SENDER_NOT_PERMITTED)
        return _present_unmatched(command, card, day)
    open_minor = gateway_open_minor(original)
    rest_minor = max(0, open_minor - command.amount_minor)
    left_minor = 0 if command.final else rest_minor
    update = updated(
        original,
        cleared_minor=command.amount_minor,
        held_minor=0,
        remainder_minor=left_minor,
        closed=original.closed or (None if left_minor else "captured"),
    )
    record = FollowUpRecord(
        "capture" if command.kind == "purchase" else "refund",
        command.amount_minor,
        remark=None if open_minor else "late",
        released_minor=rest_minor - left_minor,
    )
    return FollowUpResult(OK, (update,), record)


def _present_unmatched(command: Present, card: Card, day: str) -> FollowUpResult:
    """Open a transaction for a presentment without an approved authorization; a sale counts toward the day's
    amount."""
    if command.kind == "refund":
        opened = AuthorizationOpened(unmatched(command, card, "refund", day), 0)
        return FollowUpResult(OK, (opened,), FollowUpRecord("refund", command.amount_minor))
    opened = AuthorizationOpened(unmatched(command, card, "force_post", day), 0)
    counted = UsageCounted(day, command.amount_minor, 0)
    return FollowUpResult(OK, (opened, counted), FollowUpRecord("force_post", command.amount_minor))


# --- advices ----------------------------------------------------------------------------------------------


def advise(
    command: Advise, card: Card, original: Authorization | None, day: str, now_ms: int
) -> FollowUpResult:
    """Set the open amount to the amount that the merchant saw, less the cleared amount."""
    if command.currency != card.currency:
        return FollowUpResult(WRONG_CURRENCY)
    if is_force_posted_in_full(command, original):
        return nothing_held(command)
    if original is None or original.kind != "purchase":
        return _open_advised(command, card, original, day, now_ms)
    wanted_minor = max(0, unposted_minor(command, original))
    open_minor = gateway_open_minor(original)
    if open_minor:
        return _correct_open(original, wanted_minor, open_minor)
    by_edge = is_reversed_by_edge(card, original, now_ms)
    if wanted_minor and permits(state_of(original, None, by_edge), "advice"):
        return _open_again(original, wanted_minor, day)
    return nothing_held(command)


def _correct_open(original: Authorization, wanted_minor: int, open_minor: int) -> FollowUpResult:
    record = FollowUpRecord("advice", wanted_minor)
    delta_minor = wanted_minor - open_minor
    if not delta_minor:
        return FollowUpResult(OK, (), record)
    update = updated(
        original,
        approved_minor=max(0, delta_minor),
        reversed_minor=max(0, -delta_minor),
        held_minor=0,
        remainder_minor=wanted_minor,
        closed=None if wanted_minor else _closed(original),
    )
    if delta_minor > 0:
        return FollowUpResult(OK, (UsageCounted(original.day, delta_minor, 0), update), record)
    uncount = not wanted_minor and not original.cleared_minor
    usage = reverse_usage(original, -delta_minor, -1 if uncount else 0)
    record = msgspec.structs.replace(record, uncounted=usage.uncounted)
    return FollowUpResult(OK, (*usage.effects, update), record)


def _open_again(original: Authorization, wanted_minor: int, day: str) -> FollowUpResult:
    """Reopen a sale after a decline or an edge's reversal: the merchant saw an approval."""
    restored = restored_minor(original, wanted_minor)
    update = updated(
        original,
        approved_minor=wanted_minor - restored,
        reversed_minor=-restored,
        held_minor=0,
        remainder_minor=wanted_minor,
        day=day,
    )
    reopened: AuthorizationUpdated = msgspec.structs.replace(update, decline_reason=None, closed=None)
    record = FollowUpRecord("advice", wanted_minor)
    if day != original.day:
        record = msgspec.structs.replace(record, counted_day=day)
    count = 0 if original.cleared_minor else 1
    return FollowUpResult(OK, (UsageCounted(day, wanted_minor, count), reopened), record)


def _open_advised(
    command: Advise, card: Card, force_post: Authorization | None, day: str, now_ms: int
) -> FollowUpResult:
    """Open a transaction for a decision that the network made on its own. The part that a ``force_post``
    has presented is not open."""
    authorization = advised(command, card, force_post, day, now_ms)
    approved_minor = authorization.approved_minor
    record = FollowUpRecord("advice", command.amount_minor)
    if authorization.closed is None:
        authorization.remainder_minor = approved_minor
    opened = AuthorizationOpened(authorization, 0)
    if not gateway_open_minor(authorization):
        return FollowUpResult(OK, (opened,), record)
    return FollowUpResult(OK, (opened, UsageCounted(day, approved_minor, 1)), record)
