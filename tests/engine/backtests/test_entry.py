"""Compact entries answer as the entries with their full texts do."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from engine.backtests.entry import CompactEntry
from engine.decision.compact_values import known_configuration
from engine.decision.decide import Decision
from engine.decision.recorded import decode_inputs
from tests.support.engine.compact import Recorded, recorded

QUESTIONS = (
    "concerns_account",
    "continues_card",
    "has_texts",
    "account_version",
    "declined",
    "inputs",
    "decision",
)
_decision = msgspec.json.Decoder(Decision).decode


def entry_of(each: Recorded, **parts: Any) -> CompactEntry:
    row, known = each.row, known_configuration(each.configuration)
    entry = CompactEntry(row.actor_id, row.seq, row.recorded_at_ms, "authorize", row, known)
    return msgspec.structs.replace(entry, **parts)


def test_compact_entries_answer_as_their_full_texts() -> None:
    declined = set()
    for each in recorded():
        compact = entry_of(each)
        full = compact.in_full()
        assert (full.command, full.inputs, full.decision) == each.full[:3]
        for question in QUESTIONS:
            assert getattr(compact, question) == getattr(full, question), question
        assert compact.read_command() == full.read_command()
        declined.add(compact.declined)
    assert declined == {True, False}


def test_only_the_stored_decision_is_reproduced() -> None:
    for each in recorded():
        assert each.full.decision is not None
        compact, decision = entry_of(each), _decision(each.full.decision)
        inputs = decode_inputs(each.full.inputs or "")
        other = msgspec.structs.replace(decision, risk_score=decision.risk_score + 1)
        later = msgspec.structs.replace(inputs, day_count=inputs.day_count + 1)
        for entry in (compact, compact.in_full()):
            assert entry.has_inputs(inputs)
            assert not entry.has_inputs(later)
            assert entry.has_decision(decision, inputs.day)
            assert not entry.has_decision(other, inputs.day)


@pytest.mark.parametrize("spacing", [" ", "\n"])
def test_decision_in_another_spelling_is_compared_by_its_full_text(spacing: str) -> None:
    """The full text is made of the values, so that a space between them changes nothing."""
    each = recorded()[0]
    assert each.full.decision is not None
    assert each.row.decision is not None
    row = each.row._replace(decision=each.row.decision.removesuffix("]") + spacing + "]")
    inputs, decision = decode_inputs(each.full.inputs or ""), _decision(each.full.decision)
    assert entry_of(each, row=row).has_decision(decision, inputs.day)


def test_entry_without_its_configuration_has_no_texts() -> None:
    compact = entry_of(recorded()[0], configuration=None)
    assert (compact.has_texts, compact.inputs, compact.decision) == (False, None, None)
    assert (compact.account_version, compact.declined) == (None, True)
    assert compact.read_command().id == recorded()[0].row.authorization_id
