"""The life of an authorization as one table: states, messages that may change them, and next states.

A message that a state does not list leaves the authorization as it is: the message is recorded in the
history, or it opens a transaction of its own. The table holds for managed mode and for gateway mode, where
holds do not exist and an authorization does not expire. ``ops/docs/AUTHORIZATION.md`` draws the table. A
property test holds the code to it over random lives (``tests/engine/cards/test_authorization_states.py``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, cast, get_args

from engine.cards.account import Account
from engine.cards.authorization import (
    Authorization,
    OriginalView,
    gateway_open_minor,
    has_lapsed,
    open_hold,
    references_of,
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
    "force_posted",
    "verified",
    "refund_open",
    "refund_presented",
    "refund_reversed",
    "refund_declined",
]
Opening = Literal[
    "authorization", "verification", "refund", "advice", "force_post", "unmatched_refund_presentment"
]
"""Messages that open a transaction."""
Event = Literal[
    "increment", "presentment", "refund_presentment", "reversal", "edge_reversal", "advice", "expiry"
]
"""Messages that may change a transaction, and the end of a hold or of an edge's mark by time."""
STATES: Final[tuple[State, ...]] = get_args(State)
EVENTS: Final[tuple[Event, ...]] = get_args(Event)

DESCRIPTIONS: Final[Mapping[State, str]] = {
    "held": "An approved sale has an open hold; in gateway mode, an open amount.",
    "partially_cleared": "A part of the sale was presented, and the rest is still held or open.",
    "lapsed": "The hold expired. An increment or an advice holds the amount again.",
    "cleared": "The sale was presented, and nothing is held.",
    "reversed": "The sale was reversed, and nothing was presented.",
    "reversed_by_edge": "The edge reversed an approval that was too late for its network. An advice of the"
    " network's own approval holds the amount again.",
    "declined": "The sale was declined. An advice of the network's own approval holds its amount.",
    "declined_and_reversed": "The network reversed the declined sale, so no advice holds its amount.",
    "unfunded": "The network approved a sale on a card without a funding account; nothing is held.",
    "force_posted": "A presentment without an approved authorization was posted.",
    "verified": "An account verification (amount 0), approved or declined.",
    "refund_open": "A refund was authorized, and an amount of it is not presented.",
    "refund_presented": "The refund was presented; the network may present more of it.",
    "refund_reversed": "The network took the refund back before it was presented.",
    "refund_declined": "The refund was declined.",
}


def _next(**events: str) -> dict[Event, frozenset[State]]:
    """The events of one state, each with its possible next states."""
    return {
        cast(Event, event): frozenset(cast(list[State], names.split())) for event, names in events.items()
    }


OPENINGS: Final[Mapping[Opening, frozenset[State]]] = {
    # Each message can be reversed before it arrives.
    "authorization": frozenset({"held", "declined", "reversed", "reversed_by_edge", "declined_and_reversed"}),
    "verification": frozenset({"verified"}),
    "refund": frozenset({"refund_open", "refund_declined", "refund_reversed"}),
    "advice": frozenset({"held", "declined", "unfunded", "reversed", "declined_and_reversed", "verified"}),
    "force_post": frozenset({"force_posted"}),
    "unmatched_refund_presentment": frozenset({"refund_presented"}),
}
"""The first state of a transaction, by the message that opens it."""

TRANSITIONS: Final[Mapping[State, Mapping[Event, frozenset[State]]]] = {
    "held": _next(
        increment="held",
        presentment="partially_cleared cleared",
        reversal="held reversed",
        edge_reversal="held reversed_by_edge",
        # ``reversed_by_edge``: the network first approved, then declined, a sale that an edge had reversed.
        advice="held reversed reversed_by_edge",
        expiry="lapsed",
    ),
    "partially_cleared": _next(
        increment="partially_cleared",
        presentment="partially_cleared cleared",
        reversal="partially_cleared cleared",
        # Only managed mode marks a sale of which a part was presented as reversed by the edge.
        edge_reversal="partially_cleared cleared reversed_by_edge",
        advice="partially_cleared cleared",
        expiry="lapsed",
    ),
    "lapsed": _next(
        # An increment that was reversed before it came leaves the hold lapsed.
        increment="held partially_cleared lapsed",
        presentment="lapsed cleared",
        reversal="lapsed reversed cleared",
        # An edge's reversal of one increment; its reversal of the whole sale changes nothing.
        edge_reversal="lapsed reversed_by_edge",
        advice="held partially_cleared",
    ),
    # Reversals of a closed sale change the rest of an increment that they name, and no amount of the sale.
    "cleared": _next(presentment="cleared", reversal="cleared", edge_reversal="cleared"),
    "reversed": _next(presentment="cleared", reversal="reversed", edge_reversal="reversed"),
    "reversed_by_edge": _next(
        presentment="reversed_by_edge",
        reversal="reversed cleared",
        edge_reversal="reversed_by_edge",
        advice="held partially_cleared",
        # The edge's mark is a tombstone, and expires with it.
        expiry="reversed cleared",
    ),
    "declined": _next(reversal="declined_and_reversed", advice="held", expiry="declined_and_reversed"),
    "declined_and_reversed": {},
    "unfunded": {},
    "force_posted": {},
    "verified": {},
    "refund_open": _next(
        refund_presentment="refund_open refund_presented",
        reversal="refund_open refund_reversed refund_presented",
        edge_reversal="refund_reversed refund_presented",
    ),
    "refund_presented": _next(refund_presentment="refund_presented"),
    "refund_reversed": _next(refund_presentment="refund_presented"),
    "refund_declined": {},
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
    return by_edge and not has_tombstone(card, references_of(authorization), now_ms)


def _refund_state(refund: Authorization) -> State:
    if refund.decline_reason is not None:
        return "refund_declined"
    if gateway_open_minor(refund) or (refund.closed is None and unpresented_refund_minor(refund)):
        return "refund_open"
    return "refund_presented" if refund.cleared_minor else "refund_reversed"
