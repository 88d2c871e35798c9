"""Rows and scans in the plans that PostgreSQL logs."""

from __future__ import annotations

from pathlib import Path

from loadtests.harness.explained import LOG, Plans

LINE = b"""2026-11-23 11:00:00.000 UTC [7] LOG:  duration: 1.204 ms  plan:
\t{
\t  "Query Text": "SELECT r.id FROM transactions r WHERE mcc = '{'",
\t  "Plan": {
\t    "Node Type": "Nested Loop", "Actual Rows": 4, "Actual Loops": 1,
\t    "Plans": [
\t      {"Node Type": "Index Scan", "Index Name": "transactions_of_card", "Relation Name": "transactions",
\t       "Actual Rows": 2.00, "Actual Loops": 3, "Rows Removed by Filter": 5},
\t      {"Node Type": "Seq Scan", "Relation Name": "cards", "Actual Rows": 1000, "Actual Loops": 1}
\t    ]
\t  }
\t}
"""


def test_plans_since_the_last_look_are_added_up(tmp_path: Path) -> None:
    log = tmp_path / LOG
    log.parent.mkdir()
    log.write_bytes(LINE)
    plans = Plans(tmp_path)
    assert plans.take("transactions").rows == 0
    with log.open("ab") as more:
        more.write(LINE + b"2026-11-23 11:00:01.000 UTC [7] LOG:  checkpoint starting: time\n" + LINE)
    found = plans.take("transactions")
    assert (found.rows, found.scans) == (2 * 3 * (2 + 5), {"Index Scan transactions_of_card"})
    assert plans.take("transactions").rows == 0
