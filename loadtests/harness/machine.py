"""The conditions of a run: the machine, the versions, and the cost of a durable write."""

from __future__ import annotations

import mmap
import os
import platform
import statistics
import time
from collections.abc import Mapping
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

FSYNC_WRITES = 200
OBJECTS = 100_000
NEW_MEMORY_SHARE = 16
"""A sixteenth of the memory: more than the kernel keeps zeroed in advance."""
MADV_POPULATE_WRITE = 23
"""madvise(2), Linux 5.14; Python has no name for it yet."""
PAGE_BYTES = 8192
"""PostgreSQL's page size, and its smallest write to the write-ahead log."""


def machine() -> dict[str, Any]:
    """The machine and the versions, as text by name."""
    memory_gb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "day": time.strftime("%Y-%m-%d", time.gmtime()),
        "cpu": f"{_cpu_model()}, {os.cpu_count()} cores, {memory_gb:.0f} GB",
        "kernel": platform.release(),
        "load average before": f"{os.getloadavg()[0]:.2f}",
        "python": f"{platform.python_version()}, {python_ms():.0f} ms for {OBJECTS:,} objects",
        "new memory": new_memory(),
        **{name: version(name) for name in ("stanchion", "ray", "asyncpg")},
    }


class _Object:
    __slots__ = ("name", "number")

    def __init__(self, name: str, number: int) -> None:
        self.name = name
        self.number = number


def python_ms() -> float:
    """Best time, in milliseconds, in which this Python creates and reads ``OBJECTS`` small objects: builds of
    one version differ by a quarter, machines by more."""
    rounds: list[float] = []
    for _ in range(5):
        begin = time.perf_counter()
        sum(_Object(str(number), number).number for number in range(OBJECTS))
        rounds.append((time.perf_counter() - begin) * 1000)
    return min(rounds)


def new_memory() -> str:
    """Cost of the first write to a memory page. Under a hypervisor that reclaims free memory, every growing
    file and table pays it."""
    pages = os.sysconf("SC_PHYS_PAGES") // NEW_MEMORY_SHARE
    with suppress(OSError), mmap.mmap(-1, pages * mmap.PAGESIZE, flags=mmap.MAP_PRIVATE) as memory:
        memory.madvise(mmap.MADV_NOHUGEPAGE)
        begin = time.perf_counter()
        memory.madvise(MADV_POPULATE_WRITE)
        return f"{(time.perf_counter() - begin) / pages * 1e6:.1f} µs for a page of {mmap.PAGESIZE} bytes"
    return "not measured"


def niceness(processes: Mapping[int, str]) -> str:
    """The nice value of the benchmark, and those of ``processes`` (names by id) that differ from it."""
    mine = os.nice(0)
    found = {name: os.getpriority(os.PRIO_PROCESS, pid) for pid, name in processes.items()}
    others = [f"{name} {nice}" for name, nice in sorted(found.items()) if nice != mine]
    return ", ".join((str(mine), *others))


def fsync_ms(folder: Path) -> dict[str, float]:
    """Milliseconds of one page's write and ``fdatasync`` in ``folder``: the floor under every commit."""
    costs: list[float] = []
    page = os.urandom(PAGE_BYTES)
    with TemporaryFile(dir=folder, buffering=0) as file:
        for _ in range(FSYNC_WRITES):
            begin = time.perf_counter()
            file.write(page)
            os.fdatasync(file.fileno())
            costs.append((time.perf_counter() - begin) * 1000)
    cuts = statistics.quantiles(costs, n=100)
    return {"p50": round(statistics.median(costs), 3), "p99": round(cuts[98], 3)}


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines()
    except OSError:
        return platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
