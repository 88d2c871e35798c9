"""Rows for the two events of a plain approval, in databases that do not show such rows yet."""

from __future__ import annotations

import copy

from actors.journal.contract import Rows
from actors.journal.rows import EventRow
from engine.authorization.compact_events import DERIVED_EVENTS, PAIR, events_of_pair


def events_of(row: EventRow) -> list[EventRow]:
    """The events that ``row`` stands for, each as a row of its own without data."""
    if row.type != PAIR:
        return [row]
    return [row._replace(id=id_, type=DERIVED_EVENTS[type_]) for type_, id_ in events_of_pair(row.id)]


def without_pairs(rows: Rows) -> Rows:
    """``rows`` with one row for each event; ``rows`` itself stays as it is."""
    separate = copy.copy(rows)
    separate.events = [event for row in rows.events for event in events_of(row)]
    return separate
