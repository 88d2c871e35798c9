"""The data of events that a compact journal row implies."""

from __future__ import annotations

from engine.authorization.compact_events import DERIVED_EVENTS, decision_of, event_data, events_of_pair
from tests.support.engine import build
from tests.support.engine.compact import recorded


def test_data_of_recorded_events_is_made_again_byte_for_byte() -> None:
    types = set()
    for each in recorded():
        if '"merchant_amount"' in each.full.command:
            continue
        for type_, id_, data in each.events:
            types.add(type_)
            assert decision_of(id_, type_) == each.row.authorization_id
            assert event_data(type_, each.row, build.PROGRAMME, each.account_id) == data
    assert types == DERIVED_EVENTS.keys()


def test_a_row_of_two_events_names_both_events_of_an_approval() -> None:
    approvals = [each.events for each in recorded() if len(each.events) == len(DERIVED_EVENTS)]
    assert approvals
    for events in approvals:
        assert events_of_pair(events[0][1]) == [(type_, id_) for type_, id_, _ in events]
