"""CPU accounting over a tree of processes, on a fake ``/proc``."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from loadtests.harness.processes import (
    TICKS_PER_SECOND,
    CpuMeter,
    command_line,
    cpu_seconds,
    machine_cpu_seconds,
    part_of,
    pss_bytes,
    read_process,
    resident_bytes,
    tree,
)


def put(
    proc: Path, pid: int, parent: int, *, ticks: tuple[int, int, int, int] = (0, 0, 0, 0), command: str = ""
) -> None:
    """A process that has used ``ticks``: user, system, and those of its reaped children."""
    folder = proc / str(pid)
    folder.mkdir(exist_ok=True)
    used = " ".join(map(str, ticks))
    (folder / "stat").write_text(f"{pid} (odd) name (x) S {parent} 1 1 0 -1 0 0 0 0 0 {used} 20 0 1 0 5\n")
    (folder / "cmdline").write_bytes(command.replace(" ", "\0").encode())


def test_names_may_contain_parentheses_and_blanks(tmp_path: Path) -> None:
    put(tmp_path, 7, 3, ticks=(1, 2, 3, 4))
    process = read_process(7, tmp_path)
    assert process == (7, 3, 3 / TICKS_PER_SECOND, 7 / TICKS_PER_SECOND)
    assert process.cpu_seconds == 10 / TICKS_PER_SECOND


def test_a_process_that_has_ended_is_none(tmp_path: Path) -> None:
    assert read_process(7, tmp_path) is None
    assert command_line(7, tmp_path) == ""


def test_a_tree_is_a_process_and_all_its_descendants(tmp_path: Path) -> None:
    for pid, parent in ((1, 0), (10, 1), (11, 10), (12, 11), (13, 10), (20, 1), (21, 20)):
        put(tmp_path, pid, parent)
    (tmp_path / "self").mkdir()
    assert {process.pid for process in tree(10, tmp_path)} == {10, 11, 12, 13}
    assert tree(99, tmp_path) == []


def test_a_meter_counts_parts_new_processes_and_those_that_end(tmp_path: Path) -> None:
    put(tmp_path, 10, 1, ticks=(100, 0, 0, 0), command="python -m ops up")
    put(tmp_path, 11, 10, ticks=(50, 50, 0, 0), command="ray::Process.call")
    put(tmp_path, 12, 10, ticks=(40, 0, 0, 0), command="postgres: stanchion stanchion 127.0.0.1(5) idle")
    meter = CpuMeter([10], {10: "supervisor", 11: "edge"}, tmp_path)
    meter.begin()
    put(tmp_path, 11, 10, ticks=(60, 65, 0, 0), command="ray::Process.call")
    put(tmp_path, 13, 10, ticks=(5, 0, 0, 0), command="valkey-server 127.0.0.1:1")
    # Process 12 has ended: its parent has reaped what it used before (40) and since (7).
    for name in ("stat", "cmdline"):
        (tmp_path / "12" / name).unlink()
    put(tmp_path, 10, 1, ticks=(101, 0, 47, 0), command="python -m ops up")
    parts = meter.end()
    ticks = {part: round(used * TICKS_PER_SECOND) for part, used in parts.items()}
    assert ticks == {"supervisor": 8, "edge": 25, "redis": 5}


def test_a_parent_that_does_not_reap_keeps_its_own_time(tmp_path: Path) -> None:
    put(tmp_path, 10, 1, ticks=(100, 0, 3, 0), command="ray/raylet/raylet")
    put(tmp_path, 11, 10, ticks=(400, 0, 0, 0), command="ray::task")
    meter = CpuMeter([10], {}, tmp_path)
    meter.begin()
    for name in ("stat", "cmdline"):
        (tmp_path / "11" / name).unlink()
    put(tmp_path, 10, 1, ticks=(101, 1, 3, 0), command="ray/raylet/raylet")
    assert {part: round(used * TICKS_PER_SECOND) for part, used in meter.end().items()} == {"ray raylet": 2}


def test_memory_is_resident_memory(tmp_path: Path) -> None:
    for pid, pages in ((10, 3), (11, 4)):
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "statm").write_text(f"100 {pages} 1 1 0 50 0\n")
    assert resident_bytes([10, 11, 99], tmp_path) == 7 * os.sysconf("SC_PAGE_SIZE")
    assert resident_bytes([os.getpid()]) > 2**20


def test_proportional_memory_is_the_kernel_s_sum(tmp_path: Path) -> None:
    (tmp_path / "10").mkdir()
    lines = "5500-7ffd ---p 0 00:00 0 [rollup]\nRss: 900 kB\nPss: 300 kB\nPss_Anon: 200 kB\n"
    (tmp_path / "10" / "smaps_rollup").write_text(lines)
    assert pss_bytes(10, tmp_path) == 300 * 1024
    assert pss_bytes(99, tmp_path) == 0


@pytest.mark.parametrize(
    ("command", "part"),
    [
        ("postgres: stanchion bench_rival 127.0.0.1(5) COMMIT", "postgres backends"),
        ("postgres: checkpointer", "postgres background"),
        ("/x/pginstall/bin/postgres -c fsync=on", "postgres background"),
        ("/x/valkey-server 127.0.0.1:6379", "redis"),
        ("/x/ray/core/src/ray/gcs/gcs_server --log_dir=x", "ray gcs"),
        ("/x/ray/core/src/ray/raylet/raylet --x", "ray raylet"),
        ("ray::Process.call", "actor"),
        ("ray::IDLE", "ray helpers"),
        ("python /x/ray/_private/log_monitor.py", "ray helpers"),
        ("sleep 1", "other"),
    ],
)
def test_command_lines_determine_the_part(command: str, part: str) -> None:
    assert part_of(command) == part


def test_this_process_and_this_machine_have_used_time() -> None:
    assert 0 < cpu_seconds([os.getpid()]) < machine_cpu_seconds()
    assert cpu_seconds([]) == 0
