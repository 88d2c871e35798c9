"""Traces side by side."""

from __future__ import annotations

from api.console.trace_pairs import side_by_side


def step(rule: str, outcome: str = "pass") -> dict[str, str | None]:
    return {"rule": rule, "outcome": outcome, "observed": None, "limit": None}


def test_rules_of_one_side_stand_alone_and_versions_beside_each_other() -> None:
    before = [step("card_state"), step("rule:a@1"), step("risk"), step("funds", "fail")]
    after = [step("card_state"), step("mcc_deny"), step("rule:a@2", "fail")]
    found = [(each.rule, each.before, each.after, each.differs) for each in side_by_side(before, after)]
    assert found == [
        ("card_state", before[0], after[0], False),
        ("mcc_deny", None, after[1], True),
        ("rule:a@2", before[1], after[2], True),
        ("risk", before[2], None, True),
        ("funds", before[3], None, True),
    ]


def test_empty_traces_make_no_rows() -> None:
    assert side_by_side([], []) == []
