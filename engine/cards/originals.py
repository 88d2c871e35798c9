"""Which authorization a follow-up is about, where several share one network transaction id.

A network id names a whole life: a sale, its refunds, a second attempt after a decline. A follow-up about a
sale finds the sale, whatever else has come under the id since; one that names a message as well finds the
sale of that message. A presented refund finds the authorized refund that it pays.
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
_OVER: Final = 2
_FORCED: Final = 3
_DECLINED: Final = 4
_OTHER: Final = 5
"""Ranks of the members of a life for a follow-up about its sale, the best first."""


def find(
    command: AuthorizationCommand, members: Sequence[Authorization], account: Account | None, now_ms: int
) -> Authorization | None:
    """The one of ``members``, which share a network id and stand oldest first, that ``command`` is about."""
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
        return best if best_rank <= _OVER else None
    if isinstance(command, Reverse):
        return best
    return best if best_rank < _OTHER else None


def find_replacing_advice(
    message: str, members: Sequence[Authorization], account: Account | None, now_ms: int
) -> Authorization | None:
    """The open one of ``members`` that an advice has put in the place of ``message``."""
    return next(
        (
            member
            for member in reversed(members)
            if message in member.stands_for and _rank(member, account, now_ms) <= _LAPSED
        ),
        None,
    )


def advice_may_replace(command: AuthorizationCommand, found: Authorization) -> bool:
    """Whether a network that reverses ``found``, which is over, may mean an advice in its place.

    An edge's own reversal means the message alone.
    """
    reverses = isinstance(command, Reverse) and not command.late
    return reverses and found.network_txn_id is not None and found.closed == "released"


def is_certain(command: AuthorizationCommand, found: Authorization, account: Account | None) -> bool:
    """Whether ``found`` is the right one whatever older members the life may have."""
    if isinstance(command, Present) and command.kind == "refund":
        return unpresented_refund_minor(found) == command.amount_minor
    names_message = isinstance(command, Present | Advise) and any(map(is_message, command.references))
    if names_message and not _is_named(found, command.references):
        # An older one may be meant.
        return False
    return found.kind == "purchase" and (
        open_hold(found, account) is not None or gateway_open_minor(found) > 0
    )


def _named(
    command: AuthorizationCommand, members: Sequence[Authorization], account: Account | None, now_ms: int
) -> Authorization | None:
    """The sale whose message a presentment or an advice names, or the advice in the place of that message. A
    presentment that names a declined sale means another one."""
    if len(members) < 2 or not isinstance(command, Present | Advise):
        return None
    for message in filter(is_message, command.references):
        in_its_place = find_replacing_advice(message, members, account, now_ms)
        if in_its_place is not None:
            return in_its_place
    for member in members:
        declined = isinstance(command, Present) and member.decline_reason is not None
        if member.kind == "purchase" and not declined and _is_named(member, command.references):
            return member
    return None


def _is_named(member: Authorization, references: Sequence[str]) -> bool:
    """Whether one of ``references`` names the message of ``member``, or of one of its increments."""
    own = reference_of_message(member.command_key)
    return any(name == own or name in member.raised for name in references)


def _rank(member: Authorization, account: Account | None, now_ms: int) -> int:
    if member.kind == "force_post":
        return _FORCED
    if member.kind != "purchase":
        return _OTHER
    if member.decline_reason is not None:
        return _DECLINED
    hold = open_hold(member, account)
    if hold is not None:
        return _OPEN if hold.expires_ms > now_ms else _LAPSED
    if has_lapsed(member, account):
        return _LAPSED
    return _OPEN if gateway_open_minor(member) else _OVER


def _refund(members: Sequence[Authorization], amount_minor: int) -> Authorization | None:
    """The oldest authorized refund that has not been presented in full and whose unpresented credit is
    nearest to ``amount_minor``: equal, then larger, then smaller, then taken back."""
    best, best_rank = None, 4
    for member in members:
        if member.kind != "refund" or member.decline_reason is not None:
            continue
        if member.approved_minor <= member.cleared_minor:
            continue
        promised = unpresented_refund_minor(member)
        rank = 0 if promised == amount_minor else 1 if promised > amount_minor else 2 if promised else 3
        if rank < best_rank:
            best, best_rank = member, rank
    return best
