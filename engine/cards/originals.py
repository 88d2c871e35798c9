"""The choice of a follow-up's original among authorizations that share a network transaction id.

Such a group has a sale, its refunds, perhaps a second attempt after a decline. A follow-up about a sale finds
the sale; if it names a message too, it finds the sale of that message. A presented refund finds the
authorized refund that it clears. ``ops/docs/WIRE.md`` has the rules ("How messages find each other").
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from engine.cards.account import Account
from engine.cards.authorization import (
    Authorization,
    gateway_open_minor,
    has_lapsed,
    open_hold,
    unpresented_refund_minor,
)
from engine.commands import Advise, AuthorizationCommand, Present, Reverse, is_message, reference_of_message

_OPEN: Final = 0
_LAPSED: Final = 1
_CLOSED: Final = 2
_FORCE_POST: Final = 3
_DECLINED: Final = 4
_OTHER: Final = 5
"""Ranks of the members of a group for a follow-up about its sale, the best first."""


def find(
    command: AuthorizationCommand, members: Sequence[Authorization], account: Account | None, now_ms: int
) -> Authorization | None:
    """The original of ``command`` among ``members``, which share a network id, oldest first."""
    if isinstance(command, Present) and command.kind == "refund":
        return _refund(members, command.amount_minor)
    named = _named(command, members, account, now_ms)
    if named is not None:
        return named
    best, best_rank = None, _OTHER + 1
    for member in reversed(members):
        rank = _rank(member, account, now_ms)
        if rank < best_rank:
            best, best_rank = member, rank
    if isinstance(command, Present):
        return best if best_rank <= _CLOSED else None
    if isinstance(command, Reverse):
        return best
    return best if best_rank < _OTHER else None


def find_replacing_advice(
    message: str, members: Sequence[Authorization], account: Account | None, now_ms: int
) -> Authorization | None:
    """The open one of ``members`` that an advice opened in place of ``message``."""
    return next(
        (
            member
            for member in reversed(members)
            if message in member.stands_for and _rank(member, account, now_ms) <= _LAPSED
        ),
        None,
    )


def advice_may_replace(command: AuthorizationCommand, found: Authorization) -> bool:
    """Whether a reversal of ``found``, which is reversed already, may concern the advice that replaced it.

    An edge's own reversal concerns the message only.
    """
    reverses = isinstance(command, Reverse) and not command.late
    return reverses and found.network_txn_id is not None and found.closed == "released"


def is_certain(command: AuthorizationCommand, found: Authorization, account: Account | None) -> bool:
    """Whether ``found`` is the original even if the group has older members."""
    if isinstance(command, Present) and command.kind == "refund":
        return unpresented_refund_minor(found) == command.amount_minor
    names_message = isinstance(command, Present | Advise) and any(map(is_message, command.references))
    if names_message and not _is_named(found, command.references):
        # The message may be that of an older member.
        return False
    return found.kind == "purchase" and (
        open_hold(found, account) is not None or gateway_open_minor(found) > 0
    )


def _named(
    command: AuthorizationCommand, members: Sequence[Authorization], account: Account | None, now_ms: int
) -> Authorization | None:
    """The sale whose message a presentment or an advice names, or the advice that replaced that message. A
    presentment that names a declined sale means another sale."""
    if len(members) < 2 or not isinstance(command, Present | Advise):
        return None
    for message in filter(is_message, command.references):
        advice = find_replacing_advice(message, members, account, now_ms)
        if advice is not None:
            return advice
    for member in members:
        declined = isinstance(command, Present) and member.decline_reason is not None
        if member.kind == "purchase" and not declined and _is_named(member, command.references):
            return member
    return None


def _is_named(member: Authorization, references: Sequence[str]) -> bool:
    """Whether ``references`` name the message of ``member`` or of one of its increments."""
    own = reference_of_message(member.command_key)
    return any(name == own or name in member.increments for name in references)


def _rank(member: Authorization, account: Account | None, now_ms: int) -> int:
    if member.kind == "force_post":
        return _FORCE_POST
    if member.kind != "purchase":
        return _OTHER
    if member.decline_reason is not None:
        return _DECLINED
    hold = open_hold(member, account)
    if hold is not None:
        return _OPEN if hold.expires_ms > now_ms else _LAPSED
    if has_lapsed(member, account):
        return _LAPSED
    return _OPEN if gateway_open_minor(member) else _CLOSED


def _refund(members: Sequence[Authorization], amount_minor: int) -> Authorization | None:
    """The authorized refund, not presented in full, whose unpresented credit fits ``amount_minor`` best:
    equal, then larger, then smaller, then reversed; the oldest of equals."""
    best, best_rank = None, 4
    for member in members:
        if member.kind != "refund" or member.decline_reason is not None:
            continue
        if member.approved_minor <= member.cleared_minor:
            continue
        unpresented = unpresented_refund_minor(member)
        rank = _refund_rank(unpresented, amount_minor)
        if rank < best_rank:
            best, best_rank = member, rank
    return best


def _refund_rank(unpresented_minor: int, amount_minor: int) -> int:
    if unpresented_minor == amount_minor:
        return 0
    if unpresented_minor > amount_minor:
        return 1
    return 2 if unpresented_minor else 3
