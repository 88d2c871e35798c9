"""Gateway mode: the life of an authorization whose programme keeps its own ledger (``ops/docs/GATEWAY.md``).

The counterpart of ``engine.authorization.lifecycle`` and ``reversal``, without holds, balances and ledger
entries. ``remainder`` is the amount that may still be presented. Increments raise it, presentments and
reversals lower it, and it never expires: the programme decides when to release its own reservation. Counters
move as they do in managed mode. Each function returns the effects; it changes nothing itself.
"""

from __future__ import annotations

import msgspec

from engine.authorization.effects import (
    AuthorizationMoved,
    AuthorizationOpened,
    Counted,
    Effect,
    IncrementSet,
)
from engine.authorization.lifecycle import (
    INVALID_AMOUNT,
    OK,
    WRONG_CURRENCY,
    LifecycleResult,
    Record,
    Remark,
    advised,
    is_undone_by_edge,
    moved,
    presented,
    regained_by,
    unposted_minor,
)
from engine.authorization.usage_reversal import count_back
from engine.cards.authorization import Authorization, Closed, relayed_minor
from engine.cards.card import Card
from engine.commands import Advise, Authorize, Present, Reverse, reference_of_message
from engine.decision.decide import Decision


def raised(
    command: Authorize, decision: Decision, original: Authorization, buried: bool
) -> tuple[Effect, ...]:
    """An approved increment: more is to come. One that was reversed before it came (``buried``) is approved
    and given back in one step."""
    delta_minor = decision.approved_minor
    given_minor = delta_minor if buried else 0
    move = moved(
        original,
        approved_minor=delta_minor,
        reversed_minor=given_minor,
        held_minor=0,
        remainder_minor=original.remainder_minor + delta_minor - given_minor,
    )
    counted_minor = 0 if buried else delta_minor
    name = reference_of_message(command.command_key)
    left = IncrementSet(name, delta_minor - given_minor, decision.day, counted_minor)
    return (move, left) if buried else (Counted(decision.day, delta_minor, 0), move, left)


# --- reversals
# ------------------------------------------------------------------------------------------------


def reverse(command: Reverse, original: Authorization) -> LifecycleResult:
    """Give back what is still to come, all of it or down to DE95; of an increment, what it had raised. A
    refund that was promised is taken back in the same way. What has been cleared stays cleared."""
    open_minor = relayed_minor(original)
    increment = next((name for name in command.references if name in original.raised), None)
    if increment is None:
        given_minor = open_minor - min(_left_by(command, open_minor), open_minor)
        left_minor = None
    else:
        raised_minor = original.raised[increment].left_minor
        left_minor = min(command.remaining_minor or 0, raised_minor)
        given_minor = min(raised_minor - left_minor, open_minor)
    remark: Remark | None = None if open_minor else "nothing_held"
    record = Record("reversal", given_minor, 0, remark, increment, left_minor)
    if given_minor:
        return _given_back(original, given_minor, record)
    if increment is None or left_minor is None:
        return LifecycleResult(OK, (), record)
    known = original.raised[increment]
    return LifecycleResult(OK, (IncrementSet(increment, left_minor, known.day, known.counted_minor),), record)


def _left_by(command: Reverse, open_minor: int) -> int:
    """What a reversal leaves: all but one increment, what DE95 says, or nothing."""
    if command.increment_minor is not None:
        return max(0, open_minor - command.increment_minor)
    return command.remaining_minor or 0


def _given_back(original: Authorization, given_minor: int, record: Record) -> LifecycleResult:
    """So much less is to come; the counters follow, unless it was a refund, which never counted."""
    left_minor = original.remainder_minor - given_minor
    move = moved(
        original,
        reversed_minor=given_minor,
        held_minor=0,
        remainder_minor=left_minor,
        closed=None if left_minor else _ended(original),
    )
    if original.kind == "refund":
        return LifecycleResult(OK, (move,), record)
    count = -1 if not left_minor and not original.cleared_minor else 0
    increment, left = record.increment, record.increment_left_minor or 0
    counted = count_back(original, given_minor, count, increment, left)
    record = msgspec.structs.replace(record, uncounted=counted.uncounted)
    return LifecycleResult(OK, (*counted.effects, move), record)


def _ended(original: Authorization) -> Closed:
    """How it ends when nothing is left of it: what was cleared stays cleared."""
    return "captured" if original.cleared_minor else "released"


# --- presentments
# ---------------------------------------------------------------------------------------------


def present(command: Present, card: Card, original: Authorization | None, day: str) -> LifecycleResult:
    """Money moves between the network and the programme: every presentment is passed on, with its own amount,
    whatever was authorized."""
    if command.amount_minor <= 0:
        return LifecycleResult(INVALID_AMOUNT)
    if command.currency != card.currency:
        return LifecycleResult(WRONG_CURRENCY)
    if original is None or original.kind != command.kind or original.decline_reason is not None:
        return _present_unasked(command, card, day)
    open_minor = relayed_minor(original)
    rest_minor = max(0, open_minor - command.amount_minor)
    left_minor = 0 if command.final else rest_minor
    move = moved(
        original,
        cleared_minor=command.amount_minor,
        held_minor=0,
        remainder_minor=left_minor,
        closed=original.closed or (None if left_minor else "captured"),
    )
    record = Record(
        "capture" if command.kind == "purchase" else "refund",
        command.amount_minor,
        remark=None if open_minor else "late",
        released_minor=rest_minor - left_minor,
    )
    return LifecycleResult(OK, (move,), record)


def _present_unasked(command: Present, card: Card, day: str) -> LifecycleResult:
    """A presentment without an approved authorization is passed on all the same; a sale counts toward the
    day's amount."""
    if command.kind == "refund":
        opened = AuthorizationOpened(presented(command, card, "refund", day), 0)
        return LifecycleResult(OK, (opened,), Record("refund", command.amount_minor))
    opened = AuthorizationOpened(presented(command, card, "force_post", day), 0)
    counted = Counted(day, command.amount_minor, 0)
    return LifecycleResult(OK, (opened, counted), Record("force_post", command.amount_minor))


# --- advices
# --------------------------------------------------------------------------------------------------


def advise(
    command: Advise, card: Card, original: Authorization | None, day: str, now_ms: int
) -> LifecycleResult:
    """What the merchant saw counts: exactly that amount is to come afterwards (cases 16, 39)."""
    if command.currency != card.currency:
        return LifecycleResult(WRONG_CURRENCY)
    if original is not None and original.kind == "force_post" and unposted_minor(command, original) <= 0:
        return LifecycleResult(OK, (), Record("advice", command.amount_minor, 0, "nothing_held"))
    if original is None or original.kind != "purchase":
        return _advise_unknown(command, card, original, day, now_ms)
    wanted_minor = max(0, unposted_minor(command, original))
    open_minor = relayed_minor(original)
    if open_minor:
        return _advise_open(original, wanted_minor, open_minor)
    if wanted_minor and (original.closed is None or is_undone_by_edge(card, original, now_ms)):
        return _advise_given_up(original, wanted_minor, day)
    return LifecycleResult(OK, (), Record("advice", command.amount_minor, 0, "nothing_held"))


def _advise_open(original: Authorization, wanted_minor: int, open_minor: int) -> LifecycleResult:
    record = Record("advice", wanted_minor)
    delta_minor = wanted_minor - open_minor
    if not delta_minor:
        return LifecycleResult(OK, (), record)
    move = moved(
        original,
        approved_minor=max(0, delta_minor),
        reversed_minor=max(0, -delta_minor),
        held_minor=0,
        remainder_minor=wanted_minor,
        closed=None if wanted_minor else _ended(original),
    )
    if delta_minor > 0:
        return LifecycleResult(OK, (Counted(original.day, delta_minor, 0), move), record)
    never_was = not wanted_minor and not original.cleared_minor
    counted = count_back(original, -delta_minor, -1 if never_was else 0)
    record = msgspec.structs.replace(record, uncounted=counted.uncounted)
    return LifecycleResult(OK, (*counted.effects, move), record)


def _advise_given_up(original: Authorization, wanted_minor: int, day: str) -> LifecycleResult:
    """We declined, or an edge undid our approval, and the merchant was told yes."""
    regained_minor = regained_by(original, wanted_minor)
    move = moved(
        original,
        approved_minor=wanted_minor - regained_minor,
        reversed_minor=-regained_minor,
        held_minor=0,
        remainder_minor=wanted_minor,
        day=day,
    )
    alive: AuthorizationMoved = msgspec.structs.replace(move, decline_reason=None, closed=None)
    record = Record("advice", wanted_minor)
    if day != original.day:
        record = msgspec.structs.replace(record, counted_day=day)
    count = 0 if original.cleared_minor else 1
    return LifecycleResult(OK, (Counted(day, wanted_minor, count), alive), record)


def _advise_unknown(
    command: Advise, card: Card, posted: Authorization | None, day: str, now_ms: int
) -> LifecycleResult:
    """The network decided without asking: its decision is recorded as a stand-in. What a force post has
    ``posted`` of it already is not to come again."""
    authorization = advised(command, card, posted, day, now_ms)
    approved_minor = authorization.approved_minor
    record = Record("advice", command.amount_minor)
    if authorization.closed is None:
        authorization.remainder_minor = approved_minor
    opened = AuthorizationOpened(authorization, 0)
    if not relayed_minor(authorization):
        return LifecycleResult(OK, (opened,), record)
    return LifecycleResult(OK, (opened, Counted(day, approved_minor, 1)), record)
