"""What the report's header says of the machine."""

from __future__ import annotations

from pathlib import Path

from loadtests.machine import fsync_ms, machine


def test_the_machine_is_described_and_durable_writes_cost_something(tmp_path: Path) -> None:
    described = machine()
    assert {"cpu", "kernel", "python", "ray", "load average before"} <= described.keys()
    cost = fsync_ms(tmp_path)
    assert 0 < cost["p50"] <= cost["p99"]
    assert list(tmp_path.iterdir()) == [], "nothing is left behind"
