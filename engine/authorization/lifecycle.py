"""What happens to an authorization after its first decision: increment, presentment, advice, lapse (spec 3.5;
wire cases 12 to 26, 39); ``engine.authorization.reversal`` has the reversals.

None of these can be declined for funds, controls or card state: they report what has already happened in
the world. Each function returns the effects; it changes nothing itself. ``engine.authorization.gateway`` does
the same for programmes that keep their own ledger.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from engine.authorization.effects import (
    AuthorizationMoved,
    AuthorizationOpened,
    Counted,
    Effect,
    HoldClosed,
    HoldPlaced,
    HoldResized,
    IncrementSet,
    Transferred,
)
from engine.authorization.usage_reversal import count_back
from engine.cards.account import Account
from engine.cards.authorization import (
    Authorization,
    Closed,
    OriginalView,
    has_lapsed,
    names,
    open_hold,
)
from engine.cards.card import Card, is_buried, undone_mark
from engine.cards.hold import Hold
from engine.commands import Advise, Authorize, Present, is_message, reference_of_message
from engine.decision.decide import Decision
from engine.ids import Derived, derive
from engine.instant import DAY_MS
from engine.programmes.programme import ProgrammeConfig, hold_expiry_days

Remark = Literal["late", "nothing_held", "unknown_original", "matched"]


class Record(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a follow-up did, as the journal keeps it and the transaction's history shows it. Amounts in
    minor units."""

    type: Literal["reversal", "capture", "force_post", "refund", "advice", "lapse"]
    amount_minor: int
    held_minor: int = 0
    """What is held for the authorization afterwards."""
    remark: Remark | None = None
    increment: str | None = None
    """The increment that a reversal was about, by the name of its message."""
    increment_left_minor: int | None = None
    """What is left of that increment."""
    released_minor: int = 0
    """What a last presentment for less has given up, in gateway mode; a hold tells that by itself."""
    decided: Literal["approved", "declined"] | None = None
    """Set when an advice replaces an earlier decision (``engine.authorization.network_decision``)."""
    approval_code: str | None = None
    """DE38 of an advice that approves."""
    uncounted: dict[str, int] = msgspec.field(default_factory=dict)
    """What was given back of increments on the day of each, by their names."""
    counted_day: str | None = None
    """The day to which an advice counted, where that is not its sale's."""
    counted_minor: int = 0
    """What an advice added to a sale that had lapsed, if it counted on ``counted_day``."""
    rules: int = 0
    """The version of the rules of this package (``RULES``) that made the record."""


RULES: Final = 2
"""Version of the rules for follow-ups. 0, which old records leave out, posted a refund of a network id once,
found the newest transaction of it, took presented refunds back and counted back on the sale's day alone. 1
held the late authorization beside the advice in its place, and nothing after an edge's reversal; it did not
look at the message that a presentment or an advice names beside the network id."""


class LifecycleResult(msgspec.Struct, frozen=True):
    """The outcome of a follow-up: its answer's DE39, its effects and its record."""

    response_code: str
    effects: tuple[Effect, ...] = ()
    record: Record | None = None


OK = "00"
INVALID_AMOUNT = "13"
WRONG_CURRENCY = "12"
NOT_PERMITTED = "57"


def transfer(
    root: str,
    other_account_id: str,
    direction: Literal["debit", "credit"],
    amount_minor: int,
    authorization_id: str | None,
) -> Transferred:
    """A transfer of the command ``root`` between the card's account and ``other_account_id``."""
    return Transferred(
        transfer_id=derive(root, Derived.TRANSFER),
        debit_entry_id=derive(root, Derived.ENTRY_DEBIT),
        credit_entry_id=derive(root, Derived.ENTRY_CREDIT),
        other_account_id=other_account_id,
        direction=direction,
        amount_minor=amount_minor,
        authorization_id=authorization_id,
    )


def settlement_of(programme: ProgrammeConfig) -> str:
    """The programme's settlement account: what networks are owed and owe."""
    return derive(programme.id, Derived.SETTLEMENT)


def moved(
    original: Authorization,
    *,
    approved_minor: int = 0,
    cleared_minor: int = 0,
    reversed_minor: int = 0,
    held_minor: int,
    remainder_minor: int | None = None,
    hold_id: str | None = None,
    closed: Closed | None = None,
    day: str | None = None,
) -> AuthorizationMoved:
    """``original`` after so much more was approved, cleared or reversed.

    ``hold_id`` names a new hold: with it the authorization is alive again, whatever ended it or declined it.
    """
    return AuthorizationMoved(
        approved_minor=original.approved_minor + approved_minor,
        cleared_minor=original.cleared_minor + cleared_minor,
        reversed_minor=original.reversed_minor + reversed_minor,
        hold_id=hold_id or original.hold_id,
        closed=None if hold_id else closed or original.closed,
        decline_reason=None if hold_id else original.decline_reason,
        held_minor=held_minor,
        remainder_minor=held_minor if remainder_minor is None else remainder_minor,
        day=day or original.day,
    )


# --- increments
# ----------------------------------------------------------------------------------------------


def raise_hold(
    command: Authorize,
    decision: Decision,
    original: Authorization,
    account: Account | None,
    seen: OriginalView,
) -> tuple[Effect, ...]:
    """An approved increment: the hold grows, or, if it had lapsed, all of it is held again (wire case 19)."""
    delta_minor = decision.approved_minor
    counted = Counted(decision.day, delta_minor, 0)
    hold = open_hold(original, account)
    assert decision.hold_expires_ms is not None, "managed purchases hold"
    if hold is not None:
        total_minor = hold.amount_minor + delta_minor
        expires_ms = max(hold.expires_ms, decision.hold_expires_ms)
        resized = HoldResized(hold.id, total_minor, expires_ms)
        return counted, resized, moved(original, approved_minor=delta_minor, held_minor=total_minor)
    total_minor = seen.lapsed_minor + delta_minor
    again = Hold(
        derive(command.id, Derived.HOLD), original.card_id, original.id, total_minor, decision.hold_expires_ms
    )
    move = moved(original, approved_minor=delta_minor, held_minor=total_minor, hold_id=again.id)
    return counted, HoldPlaced(again), move


def given_up(decision: Decision, original: Authorization, seen: OriginalView) -> AuthorizationMoved:
    """An approved increment that the network had reversed before it came: approved and given back in one
    step, as a first message is; what is held stays as it was."""
    return moved(
        original,
        approved_minor=decision.approved_minor,
        reversed_minor=decision.approved_minor,
        held_minor=seen.held_minor,
        remainder_minor=original.remainder_minor,
    )


# --- presentments
# --------------------------------------------------------------------------------------------


def present(
    command: Present,
    card: Card,
    original: Authorization | None,
    account: Account | None,
    programme: ProgrammeConfig,
    day: str,
) -> LifecycleResult:
    """Money moves: a sale, a refund, or something nobody asked us about (a force post)."""
    if command.amount_minor <= 0:
        return LifecycleResult(INVALID_AMOUNT)
    if command.currency != card.currency:
        return LifecycleResult(WRONG_CURRENCY)
    if account is None:
        return LifecycleResult(NOT_PERMITTED)
    if command.kind == "refund":
        return _present_refund(command, card, original, programme, day)
    if original is None or original.kind != "purchase" or original.decline_reason is not None:
        return _force_post(command, card, programme, day)
    return _capture(command, original, account, programme)


def _capture(
    command: Present, original: Authorization, account: Account, programme: ProgrammeConfig
) -> LifecycleResult:
    """All of the amount is posted; the hold gives what it has, and the rest of it ends with the last
    presentment."""
    hold = open_hold(original, account)
    posting = transfer(command.id, settlement_of(programme), "debit", command.amount_minor, original.id)
    if hold is None:
        left_minor = max(0, original.remainder_minor - command.amount_minor)
        move = moved(
            original,
            cleared_minor=command.amount_minor,
            held_minor=0,
            remainder_minor=left_minor,
            closed=original.closed or ("captured" if command.final or not left_minor else None),
        )
        return LifecycleResult(OK, (posting, move), Record("capture", command.amount_minor, 0, "late"))
    left_minor = hold.amount_minor - min(hold.amount_minor, command.amount_minor)
    done = command.final or left_minor == 0
    drawn: Effect = (
        HoldClosed(hold.id, "captured") if done else HoldResized(hold.id, left_minor, hold.expires_ms)
    )
    held_minor = 0 if done else left_minor
    move = moved(
        original,
        cleared_minor=command.amount_minor,
        held_minor=held_minor,
        closed="captured" if done else None,
    )
    return LifecycleResult(OK, (drawn, posting, move), Record("capture", command.amount_minor, held_minor))


def _force_post(command: Present, card: Card, programme: ProgrammeConfig, day: str) -> LifecycleResult:
    """A presentment without an approved authorization posts all the same and counts toward the day's
    amount."""
    effects = (
        AuthorizationOpened(presented(command, card, "force_post", day), 0),
        Counted(day, command.amount_minor, 0),
        transfer(command.id, settlement_of(programme), "debit", command.amount_minor, command.id),
    )
    return LifecycleResult(OK, effects, Record("force_post", command.amount_minor))


def _present_refund(
    command: Present, card: Card, original: Authorization | None, programme: ProgrammeConfig, day: str
) -> LifecycleResult:
    """A refund that was authorized has been posted then; one that was not is posted now (wire cases 25,
    26)."""
    if original is not None and original.kind == "refund" and original.decline_reason is None:
        return _settle_refund(command, original, programme)
    effects = (
        AuthorizationOpened(presented(command, card, "refund", day), 0),
        transfer(command.id, settlement_of(programme), "credit", command.amount_minor, command.id),
    )
    return LifecycleResult(OK, effects, Record("refund", command.amount_minor))


def _settle_refund(command: Present, original: Authorization, programme: ProgrammeConfig) -> LifecycleResult:
    """The money of an authorized refund moves, perhaps in several presentments. What was presented in all
    and is not with the cardholder, because it was taken back before or is more than was authorized, is
    credited now."""
    credited_minor = original.approved_minor - original.reversed_minor
    missing_minor = max(0, original.cleared_minor + command.amount_minor - credited_minor)
    regained_minor = min(missing_minor, original.reversed_minor)
    move = moved(
        original,
        approved_minor=missing_minor - regained_minor,
        cleared_minor=command.amount_minor,
        reversed_minor=-regained_minor,
        held_minor=0,
    )
    if not missing_minor:
        return LifecycleResult(OK, (move,), Record("refund", 0, 0, "matched"))
    posting = transfer(command.id, settlement_of(programme), "credit", missing_minor, original.id)
    return LifecycleResult(OK, (posting, move), Record("refund", missing_minor, 0, "late"))


def presented(command: Present, card: Card, kind: Literal["force_post", "refund"], day: str) -> Authorization:
    """The transaction of a presentment that no approved authorization stands for."""
    return Authorization(
        id=command.id,
        card_id=card.id,
        kind=kind,
        currency=command.currency,
        day=day,
        command_key=command.command_key,
        network_txn_id=command.wire.network_txn_id,
        requested_minor=command.amount_minor,
        approved_minor=command.amount_minor,
        cleared_minor=command.amount_minor,
    )


# --- advices
# -------------------------------------------------------------------------------------------------


def advise(
    command: Advise,
    card: Card,
    original: Authorization | None,
    account: Account | None,
    programme: ProgrammeConfig,
    day: str,
    now_ms: int,
) -> LifecycleResult:
    """What the merchant saw counts: a hold of that amount exists afterwards, even without funds (cases 16,
    39)."""
    if command.currency != card.currency:
        return LifecycleResult(WRONG_CURRENCY)
    if original is not None and original.kind == "force_post" and unposted_minor(command, original) <= 0:
        return LifecycleResult(OK, (), Record("advice", command.amount_minor, 0, "nothing_held"))
    if original is None or original.kind != "purchase":
        return _advise_unknown(command, card, original, account, programme, day, now_ms)
    wanted_minor = max(0, unposted_minor(command, original))
    hold = open_hold(original, account)
    if hold is not None:
        return _advise_held(original, hold, wanted_minor)
    alive = original.closed is None or is_undone_by_edge(card, original, now_ms)
    if alive and wanted_minor and account is not None:
        return _advise_unheld(command, original, account, programme, day, wanted_minor, now_ms)
    return LifecycleResult(OK, (), Record("advice", command.amount_minor, 0, "nothing_held"))


def _advise_held(original: Authorization, hold: Hold, wanted_minor: int) -> LifecycleResult:
    delta_minor = wanted_minor - hold.amount_minor
    if not delta_minor:
        return LifecycleResult(OK, (), Record("advice", wanted_minor, wanted_minor))
    resized: Effect = (
        HoldResized(hold.id, wanted_minor, hold.expires_ms)
        if wanted_minor
        else HoldClosed(hold.id, "released")
    )
    move = moved(
        original,
        approved_minor=max(0, delta_minor),
        reversed_minor=max(0, -delta_minor),
        held_minor=wanted_minor,
        closed=None if wanted_minor else "released",
    )
    record = Record("advice", wanted_minor, wanted_minor)
    if delta_minor > 0:
        return LifecycleResult(OK, (Counted(original.day, delta_minor, 0), resized, move), record)
    # A sale that the merchant saw declined does not count, as if it had been reversed.
    never_was = not wanted_minor and not original.cleared_minor
    counted = count_back(original, -delta_minor, -1 if never_was else 0)
    record = msgspec.structs.replace(record, uncounted=counted.uncounted)
    return LifecycleResult(OK, (*counted.effects, resized, move), record)


def is_undone_by_edge(card: Card, original: Authorization, now_ms: int) -> bool:
    """Whether an edge's own reversal ended ``original``, and the network has not reversed it."""
    if original.closed != "released" or not card.tombstones:
        return False
    mark = undone_mark(reference_of_message(original.command_key))
    return is_buried(card, (mark,), now_ms) and not is_buried(card, names(original), now_ms)


def unposted_minor(command: Advise, original: Authorization) -> int:
    """What is still to be held of the amount that the merchant saw: some of it may have been presented."""
    return (command.amount_minor if command.approved else 0) - original.cleared_minor


def _advise_unheld(
    command: Advise,
    original: Authorization,
    account: Account,
    programme: ProgrammeConfig,
    day: str,
    wanted_minor: int,
    now_ms: int,
) -> LifecycleResult:
    """We declined, the hold lapsed or an edge undid it, and the merchant was told yes: it is held (again)."""
    hold = _new_hold(command, original.card_id, original.id, wanted_minor, programme, now_ms)
    if has_lapsed(original, account):
        return _advise_lapsed(command, original, hold, day)
    record = Record("advice", command.amount_minor, wanted_minor)
    if day != original.day:
        record = msgspec.structs.replace(record, counted_day=day)
    regained_minor = regained_by(original, wanted_minor)
    move = moved(
        original,
        approved_minor=wanted_minor - regained_minor,
        reversed_minor=-regained_minor,
        held_minor=wanted_minor,
        hold_id=hold.id,
        day=day,
    )
    count = 0 if original.cleared_minor else 1
    return LifecycleResult(OK, (Counted(day, wanted_minor, count), HoldPlaced(hold), move), record)


def regained_by(original: Authorization, wanted_minor: int) -> int:
    """What an advice of ``wanted_minor`` takes back of an edge's own reversal; the rest is approved anew."""
    return min(wanted_minor, original.reversed_minor) if original.closed is not None else 0


def _advise_lapsed(command: Advise, original: Authorization, hold: Hold, day: str) -> LifecycleResult:
    """It had counted as a purchase; the difference counts now."""
    delta_minor = hold.amount_minor - original.remainder_minor
    record = Record("advice", command.amount_minor, hold.amount_minor)
    move = moved(
        original,
        approved_minor=max(0, delta_minor),
        reversed_minor=max(0, -delta_minor),
        held_minor=hold.amount_minor,
        hold_id=hold.id,
    )
    if delta_minor <= 0:
        counted = count_back(original, -delta_minor, 0)
        record = msgspec.structs.replace(record, uncounted=counted.uncounted)
        return LifecycleResult(OK, (*counted.effects, HoldPlaced(hold), move), record)
    effects: tuple[Effect, ...] = (Counted(day, delta_minor, 0), HoldPlaced(hold), move)
    if day != original.day:
        # Like an increment that no reversal can name.
        share = IncrementSet(reference_of_message(command.command_key), 0, day, delta_minor)
        effects = (*effects, share)
        record = msgspec.structs.replace(record, counted_day=day, counted_minor=delta_minor)
    return LifecycleResult(OK, effects, record)


def _advise_unknown(
    command: Advise,
    card: Card,
    posted: Authorization | None,
    account: Account | None,
    programme: ProgrammeConfig,
    day: str,
    now_ms: int,
) -> LifecycleResult:
    """The network decided without asking: its decision is recorded as a stand-in. What a force post has
    ``posted`` of it already is not held again."""
    authorization = advised(command, card, posted, day, now_ms)
    approved_minor = authorization.approved_minor
    if not approved_minor or account is None or authorization.closed is not None:
        return LifecycleResult(
            OK, (AuthorizationOpened(authorization, 0),), Record("advice", command.amount_minor)
        )
    hold = _new_hold(command, card.id, command.id, approved_minor, programme, now_ms)
    authorization.hold_id, authorization.remainder_minor = hold.id, approved_minor
    opened = AuthorizationOpened(authorization, approved_minor)
    effects = (opened, Counted(day, approved_minor, 1), HoldPlaced(hold))
    return LifecycleResult(OK, effects, Record("advice", approved_minor, approved_minor))


def advised(
    command: Advise, card: Card, posted: Authorization | None, day: str, now_ms: int
) -> Authorization:
    """The transaction of a decision that the network has made without asking; nothing is held for it yet."""
    approved_minor = command.amount_minor if command.approved else 0
    if posted is not None and posted.kind == "force_post":
        approved_minor = max(0, unposted_minor(command, posted))
    reversed_before = is_buried(card, command.references, now_ms)
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
