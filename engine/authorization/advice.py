"""Advices (0120) in managed mode: the hold gets exactly the amount that the merchant saw approved.

An advice is accepted even without funds, because the merchant has been answered already.
"""

from __future__ import annotations

import msgspec

from engine.authorization.effects import (
    AuthorizationOpened,
    Effect,
    HoldClosed,
    HoldPlaced,
    HoldResized,
    IncrementSet,
    UsageCounted,
)
from engine.authorization.follow_up import OK, WRONG_CURRENCY, FollowUpRecord, FollowUpResult, updated
from engine.authorization.usage_reversal import reverse_usage
from engine.cards.account import Account
from engine.cards.authorization import Authorization, has_lapsed, open_hold
from engine.cards.authorization_states import is_reversed_by_edge, permits, state_of
from engine.cards.card import Card, has_tombstone
from engine.cards.hold import Hold
from engine.commands import Advise, is_message, reference_of_message
from engine.ids import Derived, derive
from engine.instant import DAY_MS
from engine.programmes.programme import ProgrammeConfig, hold_expiry_days


def advise(
    command: Advise,
    card: Card,
    original: Authorization | None,
    account: Account | None,
    programme: ProgrammeConfig,
    day: str,
    now_ms: int,
) -> FollowUpResult:
    """Hold the advised amount less the part that was presented; release the hold if the merchant saw a
    decline."""
    if command.currency != card.currency:
        return FollowUpResult(WRONG_CURRENCY)
    if is_force_posted_in_full(command, original):
        return nothing_held(command)
    if original is None or original.kind != "purchase":
        return _open_advised(command, card, original, account, programme, day, now_ms)
    wanted_minor = max(0, unposted_minor(command, original))
    hold = open_hold(original, account)
    if hold is not None:
        return _correct_hold(original, hold, wanted_minor)
    by_edge = is_reversed_by_edge(card, original, now_ms)
    if wanted_minor and account is not None and permits(state_of(original, account, by_edge), "advice"):
        return _hold_again(command, original, account, programme, day, wanted_minor, now_ms)
    return nothing_held(command)


def with_final_amount(command: Advise, original: Authorization | None) -> Advise:
    """``command`` with the amount of the whole sale: an advised increment carries only what it adds. A
    declined one adds nothing to the sale, which stays approved."""
    if not command.increment:
        return command
    if original is None or original.kind != "purchase":
        return msgspec.structs.replace(command, increment=False)
    added_minor = command.amount_minor if command.approved else 0
    total_minor = original.approved_minor - original.reversed_minor + added_minor
    return msgspec.structs.replace(command, amount_minor=total_minor, approved=True, increment=False)


def nothing_held(command: Advise) -> FollowUpResult:
    """An advice that changes nothing."""
    return FollowUpResult(OK, (), FollowUpRecord("advice", command.amount_minor, 0, "nothing_held"))


def is_force_posted_in_full(command: Advise, original: Authorization | None) -> bool:
    """Whether a force post has presented the whole advised amount."""
    return original is not None and original.kind == "force_post" and unposted_minor(command, original) <= 0


def unposted_minor(command: Advise, original: Authorization) -> int:
    """The advised amount less the cleared amount of ``original``; negative if more was cleared."""
    return (command.amount_minor if command.approved else 0) - original.cleared_minor


def _correct_hold(original: Authorization, hold: Hold, wanted_minor: int) -> FollowUpResult:
    delta_minor = wanted_minor - hold.amount_minor
    record = FollowUpRecord("advice", wanted_minor, wanted_minor)
    if not delta_minor:
        return FollowUpResult(OK, (), record)
    resized: Effect = (
        HoldResized(hold.id, wanted_minor, hold.expires_ms)
        if wanted_minor
        else HoldClosed(hold.id, "released")
    )
    update = updated(
        original,
        approved_minor=max(0, delta_minor),
        reversed_minor=max(0, -delta_minor),
        held_minor=wanted_minor,
        closed=None if wanted_minor else "released",
    )
    if delta_minor > 0:
        return FollowUpResult(OK, (UsageCounted(original.day, delta_minor, 0), resized, update), record)
    # A sale that the merchant saw declined does not count, as if it had been reversed.
    uncount = not wanted_minor and not original.cleared_minor
    usage = reverse_usage(original, -delta_minor, -1 if uncount else 0)
    record = msgspec.structs.replace(record, uncounted=usage.uncounted)
    return FollowUpResult(OK, (*usage.effects, resized, update), record)


def _hold_again(
    command: Advise,
    original: Authorization,
    account: Account,
    programme: ProgrammeConfig,
    day: str,
    wanted_minor: int,
    now_ms: int,
) -> FollowUpResult:
    """Place a hold after a decline, a lapse or an edge's reversal: the merchant saw an approval."""
    hold = _new_hold(command, original.card_id, original.id, wanted_minor, programme, now_ms)
    if has_lapsed(original, account):
        return _renew_lapsed(command, original, hold, day)
    record = FollowUpRecord("advice", command.amount_minor, wanted_minor)
    if day != original.day:
        record = msgspec.structs.replace(record, counted_day=day)
    restored = restored_minor(original, wanted_minor)
    update = updated(
        original,
        approved_minor=wanted_minor - restored,
        reversed_minor=-restored,
        held_minor=wanted_minor,
        hold_id=hold.id,
        day=day,
    )
    count = 0 if original.cleared_minor else 1
    return FollowUpResult(OK, (UsageCounted(day, wanted_minor, count), HoldPlaced(hold), update), record)


def restored_minor(original: Authorization, wanted_minor: int) -> int:
    """The part of ``wanted_minor`` that cancels an edge's reversal; the rest is a new approval."""
    return min(wanted_minor, original.reversed_minor) if original.closed is not None else 0


def _renew_lapsed(command: Advise, original: Authorization, hold: Hold, day: str) -> FollowUpResult:
    """Place a hold for a lapsed sale. Its usage was counted at the approval; only the difference counts."""
    delta_minor = hold.amount_minor - original.remainder_minor
    record = FollowUpRecord("advice", command.amount_minor, hold.amount_minor)
    update = updated(
        original,
        approved_minor=max(0, delta_minor),
        reversed_minor=max(0, -delta_minor),
        held_minor=hold.amount_minor,
        hold_id=hold.id,
    )
    if delta_minor <= 0:
        usage = reverse_usage(original, -delta_minor, 0)
        record = msgspec.structs.replace(record, uncounted=usage.uncounted)
        return FollowUpResult(OK, (*usage.effects, HoldPlaced(hold), update), record)
    effects: tuple[Effect, ...] = (UsageCounted(day, delta_minor, 0), HoldPlaced(hold), update)
    if day != original.day:
        # Stored like an increment, but one that no reversal can name.
        share = IncrementSet(reference_of_message(command.command_key), 0, day, delta_minor)
        effects = (*effects, share)
        record = msgspec.structs.replace(record, counted_day=day, counted_minor=delta_minor)
    return FollowUpResult(OK, effects, record)


def _open_advised(
    command: Advise,
    card: Card,
    force_post: Authorization | None,
    account: Account | None,
    programme: ProgrammeConfig,
    day: str,
    now_ms: int,
) -> FollowUpResult:
    """Open a transaction for a decision that the network made on its own. The part that a ``force_post``
    has presented is not held."""
    authorization = advised(command, card, force_post, day, now_ms)
    approved_minor = authorization.approved_minor
    if not approved_minor or account is None or authorization.closed is not None:
        record = FollowUpRecord("advice", command.amount_minor)
        return FollowUpResult(OK, (AuthorizationOpened(authorization, 0),), record)
    hold = _new_hold(command, card.id, command.id, approved_minor, programme, now_ms)
    authorization.hold_id, authorization.remainder_minor = hold.id, approved_minor
    opened = AuthorizationOpened(authorization, approved_minor)
    effects = (opened, UsageCounted(day, approved_minor, 1), HoldPlaced(hold))
    return FollowUpResult(OK, effects, FollowUpRecord("advice", approved_minor, approved_minor))


def advised(
    command: Advise, card: Card, force_post: Authorization | None, day: str, now_ms: int
) -> Authorization:
    """The transaction of a decision that the network made on its own, still without a hold."""
    approved_minor = command.amount_minor if command.approved else 0
    if force_post is not None and force_post.kind == "force_post":
        approved_minor = max(0, unposted_minor(command, force_post))
    reversed_before = has_tombstone(card, command.references, now_ms)
    return Authorization(
        id=command.id,
        card_id=card.id,
        kind="purchase" if command.amount_minor else "verification",
        currency=command.currency,
        day=day,
        command_key=command.command_key,
        network_txn_id=command.wire.network_txn_id,
        requested_minor=command.amount_minor,
        approved_minor=approved_minor,
        reversed_minor=approved_minor if reversed_before else 0,
        closed="released" if reversed_before else None,
        decline_reason=None if command.approved else "stand_in_declined",
        merchant_amount=command.merchant_amount,
        stands_for=tuple(filter(is_message, command.references)),
    )


def _new_hold(
    command: Advise,
    card_id: str,
    authorization_id: str,
    amount_minor: int,
    programme: ProgrammeConfig,
    now_ms: int,
) -> Hold:
    expires_ms = now_ms + hold_expiry_days(programme.hold_expiry_days, command.mcc) * DAY_MS
    return Hold(derive(command.id, Derived.HOLD), card_id, authorization_id, amount_minor, expires_ms)
