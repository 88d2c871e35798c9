"""What a command changes for velocities: the figures of the authorizations that it opened or changed.

The figures follow from the authorization itself, so they are the same whether an owner followed its commands
or reads it back later. An authorization counts at the time of its own message, also if an advice approved it
later.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import msgspec

from engine.authorization.effects import AuthorizationOpened, Effect
from engine.cards.authorization import Authorization
from engine.commands import Advise, Authorize, CardCommand, Present, reference_of_message
from engine.rules.velocity import Change, Counted

_Describing = Authorize | Advise | Present
_COUNTING = ("purchase", "force_post")


class Figures(msgspec.Struct, frozen=True, gc=False):
    """The figures of an authorization of which follows what still counts."""

    kind: str
    declined: bool
    approved_minor: int
    cleared_minor: int
    reversed_minor: int


class Description(Protocol):
    """What describes a purchase in a stored command."""

    amount_minor: int
    mcc: str
    merchant_name: str
    merchant_country: str
    merchant_id: str | None
    channel: str | None
    entry_mode: str | None


def changes_of(
    command: CardCommand, effects: tuple[Effect, ...], original: Authorization | None, now_ms: int
) -> tuple[Change, ...]:
    """The changes of ``command``, whose ``effects`` have been applied; ``original`` is the authorization that
    it was about."""
    opened = next((each.authorization for each in effects if isinstance(each, AuthorizationOpened)), None)
    authorization = opened or original
    if authorization is None or authorization.kind not in _COUNTING:
        return ()
    described = _described(command, now_ms) if isinstance(command, _Describing) else None
    changes = [base_of(authorization, described if opened is not None else None)]
    own = reference_of_message(command.command_key)
    for name, increment in authorization.increments.items():
        new = described if name == own and opened is None else None
        changes.append(_change(name, increment.counted_minor, 0, False, new))
    return tuple(changes)


def base_of(authorization: Authorization, described: Counted | None = None) -> Change:
    """What still counts of an authorization without its increments; ``described`` describes a new one."""
    declined = authorization.decline_reason is not None
    figures = Figures(
        authorization.kind,
        declined,
        authorization.approved_minor,
        authorization.cleared_minor,
        authorization.reversed_minor,
    )
    increments_minor = sum(each.counted_minor for each in authorization.increments.values())
    amount_minor, count = _counting(figures, increments_minor)
    return _change(authorization.id, amount_minor, count, declined, described)


def counted_past(
    opening: tuple[str, int, Description],
    increments: Iterable[tuple[str, int, Description, int]],
    figures: Figures,
) -> list[Counted]:
    """A stored authorization and its increments. ``opening`` is its id, its instant and its message; each
    increment is its reference, instant, message, and the amount that still counts."""
    later = [_past(name, at_ms, message, minor, 0) for name, at_ms, message, minor in increments]
    amount_minor, count = _counting(figures, sum(each.amount_minor for each in later))
    first = _past(*opening, amount_minor, count)
    first.declined = figures.declined
    return [first, *later]


def _counting(figures: Figures, increments_minor: int) -> tuple[int, int]:
    """The amount without the increments, and the number of purchases, that still count. A force post counts
    its amount only."""
    if figures.declined:
        return 0, 0
    net_minor = figures.approved_minor - figures.reversed_minor
    counts = figures.kind == "purchase" and (net_minor > 0 or figures.cleared_minor > 0)
    return max(0, net_minor - increments_minor), int(counts)


def _past(key: str, at_ms: int, message: Description, amount_minor: int, count: int) -> Counted:
    return Counted(
        key=key,
        at_ms=at_ms,
        amount_minor=amount_minor,
        count=count,
        requested_minor=message.amount_minor,
        mcc=message.mcc,
        merchant_country=message.merchant_country,
        merchant_name=message.merchant_name,
        merchant_id=message.merchant_id,
        channel=message.channel,
        entry_mode=message.entry_mode,
    )


def _change(key: str, amount_minor: int, count: int, declined: bool, described: Counted | None) -> Change:
    if described is not None:
        described.key, described.amount_minor, described.count = key, amount_minor, count
        described.declined = declined
    return Change(key, amount_minor, count, declined, described)


def _described(command: _Describing, now_ms: int) -> Counted:
    return Counted(
        key=command.id,
        at_ms=now_ms,
        amount_minor=0,
        count=0,
        requested_minor=command.amount_minor,
        mcc=command.mcc,
        merchant_country=command.merchant_country,
        merchant_name=command.merchant_name,
        merchant_id=command.merchant_id,
        channel=None if isinstance(command, Present) else command.channel,
        entry_mode=None if isinstance(command, Present) else command.entry_mode,
    )
