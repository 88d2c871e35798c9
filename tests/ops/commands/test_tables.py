"""Tables and facts for people."""

from __future__ import annotations

from ops.commands.tables import facts, money_text, second, table


def test_columns_are_aligned_and_absent_values_shown() -> None:
    assert table(("A", "LONG NAME", "B"), [("one", "x", None), ("1", None, "three")]) == [
        "A    LONG NAME  B",
        "one  x          -",
        "1    -          three",
    ]
    assert table(("A", "B"), []) == ["A  B"]


def test_facts_leave_out_what_is_absent() -> None:
    assert facts((("name", "x"), ("none", None), ("a", "1"))) == ["  name  x", "  a     1"]
    assert facts(()) == []


def test_instants_and_amounts() -> None:
    assert second("2026-11-23T04:39:37.123Z") == "2026-11-23 04:39:37"
    assert money_text({"amount": "12.50", "currency": "EUR"}) == "12.50 EUR"
    assert money_text(None) is None
