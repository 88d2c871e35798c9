"""The most memory of groups of processes, from a made ``/proc``."""

from __future__ import annotations

from pathlib import Path

from loadtests.harness.memory import MemoryMeter, anonymous_bytes


def make(proc: Path, pid: int, parent: int, command: str, kilobytes: int) -> None:
    """One process."""
    folder = proc / str(pid)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "stat").write_text(f"{pid} (x) S {parent} " + " ".join(["0"] * 40))
    (folder / "cmdline").write_bytes(command.encode().replace(b" ", b"\0"))
    (folder / "status").write_text(
        f"Name:\tx\nVmRSS:\t{9 * kilobytes} kB\nRssAnon:\t{kilobytes} kB\nRssFile:\t7 kB\n"
    )


def test_largest_process_of_each_group_counts(tmp_path: Path) -> None:
    make(tmp_path, 1, 0, "supervisor", 50)
    make(tmp_path, 2, 1, "stanchion: api-0", 10)
    make(tmp_path, 3, 1, "stanchion: api-1", 30)
    make(tmp_path, 4, 2, "postgres: stanchion", 5)
    make(tmp_path, 9, 0, "stanchion: api-0 of another installation", 900)
    groups = {"api": lambda command: "api-" in command, "none": lambda command: "absent" in command}
    meter = MemoryMeter(1, groups, tmp_path)
    assert meter.sample() == {"api": 30 * 1024, "none": 0}


def test_process_that_has_ended_uses_no_memory(tmp_path: Path) -> None:
    assert anonymous_bytes(7, tmp_path) == 0


def test_the_most_is_kept(tmp_path: Path) -> None:
    make(tmp_path, 1, 0, "task", 10)
    meter = MemoryMeter(1, {"tasks": lambda command: "task" in command}, tmp_path)
    with meter.running():
        make(tmp_path, 1, 0, "task", 4)
    assert meter.before == {"tasks": 10 * 1024}
    assert meter.most == {"tasks": 10 * 1024}
