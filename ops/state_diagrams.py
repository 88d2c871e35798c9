"""`python -m ops.state_diagrams` writes ops/docs/AUTHORIZATION.md from the table of states."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from engine.cards.authorization_states import DESCRIPTIONS, EVENTS, OPENINGS, STATES, TRANSITIONS, State

PAGE: Final = Path(__file__).parent / "docs/AUTHORIZATION.md"
SALES: Final[tuple[State, ...]] = STATES[: STATES.index("unfunded") + 1]
REFUNDS: Final[tuple[State, ...]] = tuple(state for state in STATES if state.startswith("refund_"))

_TEXT: Final = """# The life of an authorization

`make diagrams` writes this page from the table in `engine/cards/authorization_states.py`; do not edit it by
hand. The engine looks up in this table whether a message may change an authorization, and
`tests/engine/cards/test_authorization_states.py` holds both modes to it over random lives.

A message that a state does not list leaves the authorization as it is: the message is recorded in the
history, or it opens a transaction of its own. [WIRE.md](WIRE.md) lists the cases, and says which
authorization a message names. In gateway mode nothing is held: `held` means an open amount, and
authorizations do not expire ([GATEWAY.md](GATEWAY.md)).

| event | message |
|---|---|
| `increment` | an approved 0100 that raises an authorization (DE48 tag 06) |
| `presentment`, `refund_presentment` | 0220 |
| `reversal` | 0400, 0420; of the whole authorization, of a part (DE95), or of one increment |
| `edge_reversal` | the edge's own reversal of an approval that was too late for its network |
| `advice` | 0120 |
| `expiry` | none: a hold expired, or the mark of an edge's reversal did (30 days) |

## Sales

{sales}

## Refunds

{refunds}

## States

{states}

A force post (`force_posted`) and an account verification (`verified`) have one state: no later message
changes them.
"""


def page() -> str:
    """The text of the page."""
    return _TEXT.format(sales=diagram(SALES), refunds=diagram(REFUNDS), states=table())


def diagram(states: Iterable[State]) -> str:
    """A Mermaid diagram of ``states`` and the transitions between them."""
    labels: dict[tuple[str, str], list[str]] = {}
    shown = tuple(states)
    for opening, firsts in OPENINGS.items():
        for first in shown:
            if first in firsts:
                labels.setdefault(("[*]", first), []).append(opening)
    for state in shown:
        for event in EVENTS:
            for after in shown:
                if after in TRANSITIONS[state].get(event, ()):
                    labels.setdefault((state, after), []).append(event)
    edges = [f"    {before} --> {after}: {', '.join(names)}" for (before, after), names in labels.items()]
    return "\n".join(("```mermaid", "stateDiagram-v2", *edges, "```"))


def table() -> str:
    """Each state with its meaning and the events that may change it."""
    rows = [
        f"| `{state}` | {DESCRIPTIONS[state]} | {', '.join(TRANSITIONS[state]) or 'none'} |"
        for state in STATES
    ]
    return "\n".join(("| state | meaning | events |", "|---|---|---|", *rows))


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(), "utf-8")
    print("ops/docs/AUTHORIZATION.md")


if __name__ == "__main__":
    main()
