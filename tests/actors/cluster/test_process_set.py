"""All processes of an installation: order of launch, nodes that join and leave, rolling restart. No Ray."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from actors.cluster import supervised_process
from actors.cluster.environment import RestartError
from actors.cluster.process_set import ProcessSet
from actors.cluster.rolling_restart import replace_all
from actors.placement import ProcessSpec
from actors.settings import Settings
from tests.support.actors.cluster.fakes import HOME, OTHER, THIRD, FakeProcesses

SPECS = [
    ProcessSpec("coordinator", "m:c", "supervisor_node"),
    ProcessSpec("edge", "m:e", "each"),
    ProcessSpec("dispatcher-0", "m:d", "round_robin"),
    ProcessSpec("api-0", "m:a", "each"),
]


@pytest.fixture
def fakes(monkeypatch: pytest.MonkeyPatch) -> FakeProcesses:
    fakes = FakeProcesses()
    monkeypatch.setattr(supervised_process, "launch", fakes.launch)
    monkeypatch.setattr(supervised_process, "RESTART_POLL_SECONDS", 0.001)
    return fakes


@pytest.fixture
async def processes(fakes: FakeProcesses, tmp_path: Path) -> AsyncIterator[ProcessSet]:
    """Processes launched on one node."""
    settings = Settings.load(var_dir=tmp_path, database_url="postgresql://nowhere/none")
    processes = ProcessSet(settings, SPECS, fakes, lambda _failure: None)  # type: ignore[arg-type]
    processes.launch([HOME], HOME)
    yield processes
    processes.unwatch()


async def test_coordinator_launches_first_and_api_servers_second(
    processes: ProcessSet, fakes: FakeProcesses
) -> None:
    assert fakes.log == ["launch coordinator", "launch api-0", "launch dispatcher-0", "launch edge"]
    assert list(processes.current_names()) == ["coordinator", "edge", "dispatcher-0", "api-0"]


async def test_processes_end_in_reverse_order(processes: ProcessSet, fakes: FakeProcesses) -> None:
    fakes.log.clear()
    await processes.end()
    names = ["api-0", "dispatcher-0", "edge", "coordinator"]
    assert fakes.log == [line for name in names for line in (f"stop {name}", f"kill {name}")]


async def test_joining_nodes_get_processes_and_leaving_nodes_lose_them(
    processes: ProcessSet, fakes: FakeProcesses
) -> None:
    alone = {"coordinator", "edge", "dispatcher-0", "api-0"}
    assert set(processes.current_names()) == alone
    processes.follow([HOME, OTHER])
    assert set(processes.current_names()) == alone | {"edge@bbbbbbbb", "api-0@bbbbbbbb"}
    assert set(fakes.log[4:]) == {"launch edge@bbbbbbbb", "launch api-0@bbbbbbbb"}
    processes.follow([THIRD, HOME])
    assert set(processes.current_names()) == alone | {"edge@cccccccc", "api-0@cccccccc"}
    assert {"kill edge@bbbbbbbb", "kill api-0@bbbbbbbb"} <= set(fakes.log)
    processes.follow([])
    assert set(processes.current_names()) > alone, "an empty node list changes nothing"


async def test_warm_standby_starts_with_the_second_node_and_stays(
    fakes: FakeProcesses, tmp_path: Path
) -> None:
    settings = Settings.load(var_dir=tmp_path, database_url="postgresql://nowhere/none")
    specs = [ProcessSpec("relay", "m:r"), ProcessSpec("relay-2", "m:r", "standby")]
    processes = ProcessSet(settings, specs, fakes, lambda _failure: None)  # type: ignore[arg-type]
    processes.launch([HOME], HOME)
    assert fakes.log == ["launch relay"]
    for nodes in ([HOME, OTHER], [HOME, OTHER, THIRD], [HOME]):
        processes.follow(nodes)
        assert list(processes.current_names()) == ["relay", "relay-2"]
    assert fakes.log == ["launch relay", "launch relay-2"]
    processes.unwatch()


async def test_running_processes_are_adopted_and_the_others_launched(
    fakes: FakeProcesses, tmp_path: Path
) -> None:
    settings = Settings.load(var_dir=tmp_path, database_url="postgresql://nowhere/none")
    processes = ProcessSet(settings, SPECS, fakes, lambda _failure: None)  # type: ignore[arg-type]
    processes.launch([HOME], HOME, {"edge": "edge.4", "coordinator": "coordinator"})
    assert fakes.log == ["launch api-0", "launch dispatcher-0"]
    assert processes.current_names()["edge"] == "edge.4"
    fakes._start("edge.4")
    await dict(processes.items())["edge"].replace()
    assert processes.current_names()["edge"] == "edge.5"


# --- rolling restart --------------------------------------------------------------------------------------


def coordinator_with_hosts(fakes: FakeProcesses, replace: Callable[[str], str]) -> Callable[..., Any]:
    """Calls to a coordinator of two hosts; ``replace`` returns the successor of a host."""

    async def coordinate(method: str, payload: bytes) -> bytes:
        if method == "hosts":
            return msgspec.msgpack.encode(["host-1", "host-2"])
        fakes.log.append(f"replace {payload.decode()}")
        return replace(payload.decode()).encode()

    return coordinate


async def test_rolling_restart_replaces_hosts_first_then_all_processes(
    processes: ProcessSet, fakes: FakeProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = coordinator_with_hosts(fakes, lambda old: f"{old}-new")
    monkeypatch.setattr(fakes, "coordinate", call, raising=False)
    before, reported = dict(fakes.pids), list[str]()
    fakes.log.clear()
    await replace_all(fakes, processes, reported.append)  # type: ignore[arg-type]
    assert fakes.log[:3] == ["replace host-1", "replace host-2", "kill coordinator"]
    assert [line.split(" (")[0] for line in reported] == [
        "host-1 is host-1-new",
        "host-2 is host-2-new",
        *(f"{name} is new" for name in processes.current_names()),
    ]
    assert processes.current_names() == {
        "coordinator": "coordinator",
        "edge": "edge.1",
        "dispatcher-0": "dispatcher-0.1",
        "api-0": "api-0.1",
    }, "successors keep the placed names"
    assert not set(fakes.pids.values()) & set(before.values())


async def test_rolling_restart_ends_at_the_first_host_that_keeps_its_shards(
    processes: ProcessSet, fakes: FakeProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = coordinator_with_hosts(fakes, lambda old: old)
    monkeypatch.setattr(fakes, "coordinate", call, raising=False)
    with pytest.raises(RestartError, match="host-1 could not hand over its shards"):
        await replace_all(fakes, processes, lambda _line: None)  # type: ignore[arg-type]


async def test_rolling_restart_ends_at_the_first_process_that_does_not_start(
    processes: ProcessSet, fakes: FakeProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fakes, "coordinate", coordinator_with_hosts(fakes, lambda _old: ""), raising=False)
    fakes.failing.add("edge.1")
    reported = list[str]()
    with pytest.raises(RestartError, match="edge does not start"):
        await replace_all(fakes, processes, reported.append)  # type: ignore[arg-type]
    assert "host-1 is gone" in reported[0]
    assert "edge" in fakes.pids, "the old process still serves"
    assert "api-0" in processes.current_names(), "a process after it is unchanged"
