"""The life of an authorization as one table: its states, the messages that may change it, and the next
states.

A message that a state does not list leaves the authorization as it is: the message is recorded in the
history, or it opens a transaction of its own. The table holds for managed mode and for gateway mode, where
holds do not exist and an authorization does not expire. ``ops/docs/AUTHORIZATION.md`` draws the table. A
property test holds the code to it over random lives (``tests/engine/cards/test_authorization_states.py``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, get_args

from engine.cards.account import Account
from engine.cards.authorization import (
    Authorization,
    OriginalView,
    gateway_open_minor,
    has_lapsed,
    names,
    open_hold,
    unpresented_refund_minor,
)
from engine.cards.card import Card, edge_reversal_mark, has_tombstone
from engine.commands import reference_of_message

State = Literal[
    "held",
    "partially_cleared",
    "lapsed",
    "cleared",
    "reversed",
    "reversed_by_edge",
    "declined",
    "declined_and_reversed",
    "unfunded",
    "refund_open",
    "refund_presented",
    "refund_reversed",
    "refund_declined",
    "force_posted",
    "verified",
]
Event = Literal[
    "increment",
    "presentment",
    "refund_presentment",
    "reversal",
    "edge_reversal",
    "advice",
    "expiry",
]
STATES: Final[tuple[State, ...]] = get_args(State)
EVENTS: Final[tuple[Event, ...]] = get_args(Event)
_CLEARABLE: Final[Mapping[Event, frozenset[State]]] = {"presentment": frozenset()}
TRANSITIONS: Final[Mapping[State, Mapping[Event, frozenset[State]]]] = {
    "held": {"increment": frozenset(), "presentment": frozenset(), "advice": frozenset()},
    "partially_cleared": {"increment": frozenset(), "presentment": frozenset(), "advice": frozenset()},
    "lapsed": {"increment": frozenset(), "presentment": frozenset(), "advice": frozenset()},
    "cleared": {"presentment": frozenset()},
    "reversed": {"presentment": frozenset()},
    "reversed_by_edge": {"presentment": frozenset(), "advice": frozenset()},
    "declined": {"advice": frozenset()},
    "declined_and_reversed": {},
    "unfunded": {"presentment": frozenset()},
    "refund_open": {"refund_presentment": frozenset()},
    "refund_presented": {"refund_presentment": frozenset()},
    "refund_reversed": {"refund_presentment": frozenset()},
    "refund_declined": {},
    "force_posted": {},
    "verified": {},
}


def permits(state: State, event: Event) -> bool:
    """Whether ``event`` may change an authorization in ``state``."""
    return event in TRANSITIONS[state]


def state_of(authorization: Authorization, account: Account | None, by_edge: bool = False) -> State:
    """The state of ``authorization``; ``by_edge`` is the result of ``is_reversed_by_edge``."""
    if authorization.kind == "force_post":
        return "force_posted"
    if authorization.kind == "verification":
        return "verified"
    if authorization.kind == "refund":
        return _refund_state(authorization)
    if authorization.decline_reason is not None:
        reversed_by_network = authorization.closed is not None and not by_edge
        return "declined_and_reversed" if reversed_by_network else "declined"
    if open_hold(authorization, account) is not None or gateway_open_minor(authorization):
        return "partially_cleared" if authorization.cleared_minor else "held"
    if authorization.closed is not None:
        if by_edge:
            return "reversed_by_edge"
        return "cleared" if authorization.cleared_minor else "reversed"
    return "lapsed" if has_lapsed(authorization, account) else "unfunded"


def original_view(authorization: Authorization, account: Account | None) -> OriginalView:
    """The present amounts of ``authorization`` for a decision about an increment."""
    hold = open_hold(authorization, account)
    lapsed = has_lapsed(authorization, account)
    return OriginalView(
        id=authorization.id,
        approved_minor=authorization.approved_minor,
        cleared_minor=authorization.cleared_minor,
        reversed_minor=authorization.reversed_minor,
        held_minor=hold.amount_minor if hold else 0,
        lapsed_minor=authorization.remainder_minor if lapsed else 0,
        open=permits(state_of(authorization, account), "increment"),
    )


def is_reversed_by_edge(card: Card, authorization: Authorization, now_ms: int) -> bool:
    """Whether an edge's own reversal ended ``authorization``, and the network has not reversed it."""
    if authorization.closed != "released" or not card.tombstones:
        return False
    mark = edge_reversal_mark(reference_of_message(authorization.command_key))
    by_edge = has_tombstone(card, (mark,), now_ms)
    return by_edge and not has_tombstone(card, names(authorization), now_ms)


def _refund_state(refund: Authorization) -> State:
    if refund.decline_reason is not None:
        return "refund_declined"
    if gateway_open_minor(refund) or (refund.closed is None and unpresented_refund_minor(refund)):
        return "refund_open"
    return "refund_presented" if refund.cleared_minor else "refund_reversed"
