"""An edge's own reversal of a late approval, beside the network's own decision.

The network got no answer in time, so an edge reverses the approval (``Reverse.late``). The network may have
answered the merchant with its own approval, and reports it in an advice. Then the advised amount is held, in
whichever order the late authorization, the edge's reversal and the advice arrive. A reversal by the network
leaves nothing held.

Two kinds of marked tombstones (``edge_reversal_mark``, ``network_approval_mark``) record the edge's reversal
and the network's approval; only an unmarked tombstone is a reversal by the network.
"""

from __future__ import annotations

import msgspec

from engine.authorization.effects import AuthorizationOpened, AuthorizationUpdated, TombstoneSet
from engine.authorization.follow_up import OK, FollowUpRecord, FollowUpResult
from engine.cards.account import Account
from engine.cards.authorization import Authorization, open_hold
from engine.cards.card import (
    Card,
    edge_reversal_mark,
    has_tombstone,
    is_reversed_or_replaced,
    network_approval_mark,
)
from engine.commands import Advise, Reverse, is_message, reference_of_message


def replaced_by_network(
    command: Reverse, card: Card, original: Authorization | None, account: Account | None, now_ms: int
) -> FollowUpResult | None:
    """The result of an edge's reversal that changes nothing, because the network's own approval has replaced
    the message; ``None`` if it has not."""
    if not has_tombstone(card, tuple(map(network_approval_mark, command.references)), now_ms):
        return None
    if original is None:
        return FollowUpResult(OK, (), FollowUpRecord("reversal", 0, 0, "unknown_original"))
    hold = open_hold(original, account)
    return FollowUpResult(OK, (), FollowUpRecord("reversal", 0, hold.amount_minor if hold else 0))


def with_edge_reversal_mark(original: Authorization, result: FollowUpResult, now_ms: int) -> FollowUpResult:
    """``result`` of an edge's reversal, with a mark if it closed ``original``."""
    closed = any(
        isinstance(effect, AuthorizationUpdated) and effect.closed == "released" for effect in result.effects
    )
    if original.closed is not None or not closed:
        return result
    return _with_tombstones(result, (edge_reversal_mark(reference_of_message(original.command_key)),), now_ms)


def with_reversal(
    command: Reverse, card: Card, original: Authorization, result: FollowUpResult, now_ms: int
) -> FollowUpResult:
    """``result`` of the network's reversal of ``original``, with a tombstone for each message that an edge
    has reversed: no later advice holds its amount."""
    if not card.tombstones or command.remaining_minor or command.increment_minor is not None:
        return result
    messages = (*filter(is_message, command.references), reference_of_message(original.command_key))
    by_edge = (
        message
        for message in dict.fromkeys(messages)
        if message not in original.increments and has_tombstone(card, (edge_reversal_mark(message),), now_ms)
    )
    return _with_tombstones(result, tuple(by_edge), now_ms)


def with_network_approval_marks(
    command: Advise, card: Card, original: Authorization | None, result: FollowUpResult, now_ms: int
) -> FollowUpResult:
    """``result`` of an advice, with a mark for each message that its approval replaces."""
    record = result.record
    if record is None or record.remark == "nothing_held" or not command.approved:
        return result
    opened = next((each for each in result.effects if isinstance(each, AuthorizationOpened)), None)
    messages = tuple(filter(is_message, command.references))
    if opened is None and original is not None:
        messages = (*messages, reference_of_message(original.command_key))
    elif opened is not None and (opened.authorization.closed or not opened.authorization.approved_minor):
        return result
    marks = (
        network_approval_mark(message)
        for message in dict.fromkeys(messages)
        if not (card.tombstones and is_reversed_or_replaced(card, (message,), now_ms))
    )
    return _with_tombstones(result, tuple(marks), now_ms)


def _with_tombstones(result: FollowUpResult, tombstones: tuple[str, ...], now_ms: int) -> FollowUpResult:
    if not tombstones:
        return result
    effects = (*result.effects, TombstoneSet(tombstones, now_ms))
    return msgspec.structs.replace(result, effects=effects)
