"""The description of the machine in the report's header."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from loadtests.harness.machine import fsync_ms, machine, niceness


def test_the_machine_is_described_and_durable_writes_cost_something(tmp_path: Path) -> None:
    described = machine()
    assert {"cpu", "kernel", "python", "new memory", "ray", "load average before"} <= described.keys()
    assert "µs" in described["new memory"]
    cost = fsync_ms(tmp_path)
    assert 0 < cost["p50"] <= cost["p99"]
    assert list(tmp_path.iterdir()) == [], "nothing is left behind"


def test_niceness_names_the_processes_that_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "nice", lambda _more: 0)
    monkeypatch.setattr(os, "getpriority", lambda _which, pid: {1: 0, 2: 5, 3: 5}[pid])
    assert niceness({1: "edge"}) == "0"
    assert niceness({1: "edge", 3: "relay", 2: "dispatcher-0"}) == "0, dispatcher-0 5, relay 5"
