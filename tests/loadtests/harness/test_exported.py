"""Rows and sums of the file of an export."""

from __future__ import annotations

from pathlib import Path

from loadtests.harness.exported import Sums, sums_of_file

CSV = """id,requested_amount,approved_amount,cleared_amount,reversed_amount,merchant_name
1,10.00,10.00,0.05,0.00,"A shop, with
a line break"
2,99.00,0.00,0.00,1.50,Shop
"""
JSONL = '{"id": "1", "amount": "10.00"}\n{"id": "2", "amount": "0.01"}\n'


def test_amounts_are_summed_in_minor_units(tmp_path: Path) -> None:
    path = tmp_path / "export"
    path.write_text(CSV)
    sums = {"requested_amount": 10_900, "approved_amount": 1_000, "cleared_amount": 5, "reversed_amount": 150}
    assert sums_of_file(path, "transactions", "csv") == Sums(2, sums)


def test_both_formats_are_read(tmp_path: Path) -> None:
    path = tmp_path / "export"
    path.write_text(JSONL)
    assert sums_of_file(path, "ledger_entries", "jsonl") == Sums(2, {"amount": 1_001})
