"""The metrics page in the exporter's format."""

from __future__ import annotations

from actors.exposition import exposition
from loadtests.harness.metrics import COMMITTED, DECIDED, parse


def test_counters_are_summed_over_processes() -> None:
    page = exposition(
        {
            "host-1": {"stanchion_process_id": 11, "stanchion_commands": 5, "stanchion_commits": 2},
            "host-2": {"stanchion_process_id": 12, "stanchion_commands": 7, "stanchion_commits": 1},
            "edge": {"stanchion_process_id": 13, "stanchion_wire_requests": 12},
            "database": {"stanchion_database_bytes": 1},
        }
    )
    scraped = parse(page.decode(), 3.5)
    assert scraped.at == 3.5
    assert (scraped.totals[DECIDED], scraped.totals[COMMITTED]) == (12, 3)
    assert scraped.processes == {"host-1": 11, "host-2": 12, "edge": 13}
