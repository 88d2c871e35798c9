"""``ops/docs/AUTHORIZATION.md`` is written from the table of states."""

from __future__ import annotations

import re

from engine.cards.authorization_states import OPENINGS, TRANSITIONS
from ops.state_diagrams import PAGE, REFUNDS, SALES, diagram, page


def test_page_is_up_to_date() -> None:
    """``make diagrams`` writes it."""
    assert PAGE.read_text("utf-8") == page()


def test_diagrams_show_every_transition() -> None:
    drawn = set()
    for line in (diagram(SALES) + diagram(REFUNDS)).splitlines():
        match = re.fullmatch(r"    (\S+) --> (\w+): (.+)", line)
        if match is not None:
            drawn |= {(match[1], event, match[2]) for event in match[3].split(", ")}
    alone = {"force_posted", "verified"}
    expected: set[tuple[str, str, str]] = {
        (state, event, after)
        for state, events in TRANSITIONS.items()
        for event, states in events.items()
        for after in states
    }
    expected |= {("[*]", opening, first) for opening, firsts in OPENINGS.items() for first in firsts - alone}
    assert drawn == expected
