"""Decisions stored by any release replay byte for byte."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from engine.cards.authorization import OriginalView
from engine.commands import Authorize
from engine.decision.decide import authorize
from engine.decision.delegation import EndpointResult
from engine.decision.inputs import INPUTS_LAYOUT, Inputs
from engine.decision.recorded import decode_inputs
from engine.programmes.stand_in import Grant
from engine.rules.observed import Observed, RulesInForce

RECORDED = Path(__file__).parent / "recorded"
LAYOUTS: dict[type[msgspec.Struct], str] = {
    Inputs: "now_ms card_seq card_state cardholder_active network card_currency exp_year exp_month controls"
    " day day_count day_amount_minor cvv2_failures programme_version programme_status programme_mode timezone"
    " hold_expiry_days account_version posted_minor held_minor lapsed_holds original decisioning"
    " endpoint_result declared_remaining_minor rules reversed_early rules_in_force",
    OriginalView: "id approved_minor cleared_minor reversed_minor held_minor lapsed_minor open",
    EndpointResult: "decision approved_minor trigger grant",
    RulesInForce: "versions shadow_versions observed card_created_ms",
    Observed: "value seen",
}
"""Fields of layout 2 and of the positional structures in it."""


class Entry(msgspec.Struct):
    command: str
    inputs: str
    decision: str


def entries(layout: int = 1) -> list[Entry]:
    """Decisions stored by the release before layout 2, and by the one before authorization rules."""
    lines = (RECORDED / f"decisions_layout_{layout}.jsonl").read_bytes().splitlines()
    return [msgspec.json.decode(line, type=Entry) for line in lines]


@pytest.mark.parametrize("layout", [1, 2])
def test_recorded_decisions_replay_byte_for_byte(layout: int) -> None:
    recorded = entries(layout)
    assert len(recorded) > 20
    for entry in recorded:
        command = msgspec.json.decode(entry.command, type=Authorize)
        decided = authorize(command, decode_inputs(entry.inputs))
        assert msgspec.json.encode(decided).decode() == entry.decision


def test_first_layout_is_stored_again_in_the_present_one() -> None:
    for entry in entries():
        inputs = decode_inputs(entry.inputs)
        stored = msgspec.json.encode(inputs).decode()
        assert stored.startswith(f"[{INPUTS_LAYOUT},")
        assert decode_inputs(stored) == inputs


@pytest.mark.parametrize("struct", LAYOUTS, ids=lambda struct: struct.__name__)
def test_fields_are_only_added_at_the_end(struct: type[msgspec.Struct]) -> None:
    """Any other change needs a new layout: see ``engine.decision.recorded``."""
    pinned = LAYOUTS[struct].split()
    fields = list(struct.__struct_fields__)
    assert fields[: len(pinned)] == pinned
    assert len(struct.__struct_defaults__) >= len(fields) - len(pinned)


def test_grants_are_stored_by_name() -> None:
    assert not Grant.__struct_config__.array_like


def test_broken_inputs_are_refused() -> None:
    for stored in ("", "[]", "[2]", "{}", "[2,1]"):
        with pytest.raises(msgspec.DecodeError):
            decode_inputs(stored)
