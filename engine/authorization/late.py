"""An edge's own reversal of an approval that came too late, beside the network's own decision.

The network got no answer, so an edge takes the approval back (``Reverse.late``). The network may have told
the merchant yes instead, and says so in an advice. Then the advised amount is held, in whichever order the
late authorization, the edge's reversal and the advice arrive. A reversal by the network leaves nothing held.

Tombstones of two more kinds (``undone_mark``, ``stand_in_mark``) record who has ended what; only plain ones
stand for a reversal by the network.
"""

from __future__ import annotations

import msgspec

from engine.authorization.effects import AuthorizationMoved, AuthorizationOpened, TombstoneSet
from engine.authorization.lifecycle import OK, LifecycleResult, Record
from engine.cards.account import Account
from engine.cards.authorization import Authorization, open_hold
from engine.cards.card import Card, is_buried, is_given_up, stand_in_mark, undone_mark
from engine.commands import Advise, Reverse, is_message, reference_of_message


def stands(
    command: Reverse, card: Card, original: Authorization | None, account: Account | None, now_ms: int
) -> LifecycleResult | None:
    """The outcome of an edge's own reversal that changes nothing: the network's approval has taken the place
    of the message. ``None``: it has not."""
    if not is_buried(card, tuple(map(stand_in_mark, command.references)), now_ms):
        return None
    if original is None:
        return LifecycleResult(OK, (), Record("reversal", 0, 0, "unknown_original"))
    hold = open_hold(original, account)
    return LifecycleResult(OK, (), Record("reversal", 0, hold.amount_minor if hold else 0))


def with_undone_mark(original: Authorization, outcome: LifecycleResult, now_ms: int) -> LifecycleResult:
    """``outcome`` of an edge's own reversal, with the mark that it ended ``original``, if it did."""
    ended = any(
        isinstance(effect, AuthorizationMoved) and effect.closed == "released" for effect in outcome.effects
    )
    if original.closed is not None or not ended:
        return outcome
    return _with(outcome, (undone_mark(reference_of_message(original.command_key)),), now_ms)


def with_reversal(
    command: Reverse, card: Card, original: Authorization, outcome: LifecycleResult, now_ms: int
) -> LifecycleResult:
    """``outcome`` of the network's reversal of ``original``, with a tombstone for what an edge has undone: no
    advice holds that again."""
    if not card.tombstones or command.remaining_minor or command.increment_minor is not None:
        return outcome
    messages = (*filter(is_message, command.references), reference_of_message(original.command_key))
    undone = (
        message
        for message in dict.fromkeys(messages)
        if message not in original.raised and is_buried(card, (undone_mark(message),), now_ms)
    )
    return _with(outcome, tuple(undone), now_ms)


def with_stand_in_marks(
    command: Advise, card: Card, original: Authorization | None, outcome: LifecycleResult, now_ms: int
) -> LifecycleResult:
    """``outcome`` of an advice, with marks for the messages in whose place it approves."""
    record = outcome.record
    if record is None or record.remark == "nothing_held" or not command.approved:
        return outcome
    opened = next((each for each in outcome.effects if isinstance(each, AuthorizationOpened)), None)
    messages = tuple(filter(is_message, command.references))
    if opened is None and original is not None:
        messages = (*messages, reference_of_message(original.command_key))
    elif opened is not None and (opened.authorization.closed or not opened.authorization.approved_minor):
        return outcome
    marks = (
        stand_in_mark(message)
        for message in dict.fromkeys(messages)
        if not (card.tombstones and is_given_up(card, (message,), now_ms))
    )
    return _with(outcome, tuple(marks), now_ms)


def _with(outcome: LifecycleResult, tombstones: tuple[str, ...], now_ms: int) -> LifecycleResult:
    if not tombstones:
        return outcome
    effects = (*outcome.effects, TombstoneSet(tombstones, now_ms))
    return msgspec.structs.replace(outcome, effects=effects)
