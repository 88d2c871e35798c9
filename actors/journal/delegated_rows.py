"""Rows of decisions by programmes and in stand-in in full, for databases that other releases still use."""

from __future__ import annotations

import copy

from actors.journal.contract import Rows
from actors.journal.event_pairs import events_of
from actors.journal.rows import EventRow, JournalRow, stored_row
from engine.authorization.compact_events import TYPE_OF_CODE, decision_of, event_data
from engine.decision.compact_layout import StoredRow
from engine.decision.compact_reading import expanded, is_delegated


def without_delegated(rows: Rows) -> Rows:
    """``rows`` with these decisions and their events in full; ``rows`` itself stays as it is."""
    decisions = [row for row in rows.journal if is_delegated(row.command, row.inputs)]
    if not decisions:
        return rows
    separate = copy.copy(rows)
    separate.journal = [_in_full(rows, row) for row in rows.journal]
    stored = {row.authorization_id or "": stored_row(row) for row in decisions}
    separate.events = [written for event in rows.events for written in _events(rows, event, stored)]
    return separate


def _in_full(rows: Rows, row: JournalRow) -> JournalRow:
    if not is_delegated(row.command, row.inputs):
        return row
    # A batch has the configurations of all its decisions.
    texts = expanded(stored_row(row), rows.configurations.__getitem__)
    return row._replace(**texts._asdict())


def _events(rows: Rows, event: EventRow, stored: dict[str, StoredRow]) -> list[EventRow]:
    """The rows of ``event``: with their data, if it is of a decision in ``stored``."""
    if event.data is not None:
        return [event]
    separate = events_of(event)
    about = decision_of(separate[0].id, TYPE_OF_CODE[separate[0].type])
    if about not in stored:
        return [event]
    return [_with_data(rows, each, stored[about]) for each in separate]


def _with_data(rows: Rows, event: EventRow, row: StoredRow) -> EventRow:
    type_ = TYPE_OF_CODE[event.type]
    [programme_id] = [each.programme_id for each in rows.transactions if each.id == row.authorization_id]
    accounts = [each.account_id for each in rows.holds if each.authorization_id == row.authorization_id]
    assert programme_id is not None, "a decision opens its transaction"
    data = event_data(type_, row, programme_id, accounts[0] if accounts else None)
    return event._replace(type=type_, data=data)
