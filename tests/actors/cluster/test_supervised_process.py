"""One supervised process: failure detection, kills and replacement. No Ray."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from actors.cluster import process_state
from actors.cluster import supervised_process as module
from actors.cluster.liveness import Checks
from actors.cluster.supervised_process import SupervisedProcess
from actors.peers import PeerFailedError
from actors.placement import PlacedProcess, ProcessSpec
from actors.settings import Settings
from tests.support.actors.cluster.fakes import HOME, SHORT_PROBES, FakeProcesses, until

pytestmark = pytest.mark.virtual_time

EDGE = ProcessSpec("edge", "m:e", "each")


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> FakeProcesses:
    processes = FakeProcesses()
    monkeypatch.setattr(module, "launch", processes.launch)
    monkeypatch.setattr(module, "RESTART_POLL_SECONDS", 0.001)
    monkeypatch.setattr(module, "FAILED_PAUSE_SECONDS", 0.001)
    return processes


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings.load(var_dir=tmp_path, database_url="postgresql://nowhere/none")


def launched(processes: FakeProcesses, settings: Settings, spec: ProcessSpec) -> SupervisedProcess:
    placed = PlacedProcess(spec.name, spec, HOME, pinned=False)
    checks = Checks(SHORT_PROBES.check_seconds)
    process = SupervisedProcess(placed, settings, processes, checks, SHORT_PROBES)  # type: ignore[arg-type]
    process.launch()
    processes.log.clear()
    return process


async def test_successor_serves_before_the_old_process_ends(
    processes: FakeProcesses, settings: Settings
) -> None:
    edge = launched(processes, settings, EDGE)
    await edge.replace()
    assert processes.log == ["launch edge.1", "stop edge", "kill edge"]
    await edge.replace()
    assert processes.log[3:] == ["launch edge.2", "stop edge.1", "kill edge.1"]
    assert edge.name == "edge.2"
    assert processes.pids.keys() == {"edge.2"}


async def test_successor_that_does_not_serve_is_killed_and_the_old_process_stays(
    processes: FakeProcesses, settings: Settings
) -> None:
    edge = launched(processes, settings, EDGE)
    processes.failing.add("edge.1")
    with pytest.raises(PeerFailedError):
        await edge.replace()
    assert processes.log == ["launch edge.1", "kill edge.1"]
    assert edge.name == "edge"


async def test_singleton_restarts_under_its_name(processes: FakeProcesses, settings: Settings) -> None:
    network = launched(processes, settings, ProcessSpec("network", "m:n"))
    before = processes.pids["network"]
    await network.replace()
    assert processes.log == ["stop network", "kill network"]
    assert processes.pids["network"] != before


async def test_coordinator_is_killed_without_a_stop_that_would_end_its_hosts(
    processes: FakeProcesses, settings: Settings
) -> None:
    coordinator = launched(processes, settings, ProcessSpec("coordinator", "m:c", "supervisor_node"))
    await coordinator.replace()
    assert processes.log == ["kill coordinator"]


async def test_failing_start_of_a_watched_process_is_retried(
    processes: FakeProcesses, settings: Settings
) -> None:
    edge = launched(processes, settings, EDGE)
    failures: list[BaseException] = []
    edge.watch(failures.append)
    processes.failing.add("edge")
    await asyncio.sleep(0.01)
    assert failures == []
    edge.unwatch()
    edge.unwatch()


async def test_silent_process_is_killed_and_started_again(
    processes: FakeProcesses, settings: Settings
) -> None:
    edge = launched(processes, settings, EDGE)
    edge.watch(lambda _failure: None)
    await until(lambda: bool(edge.identity))
    before = edge.identity
    processes.silent.add("edge")
    await until(lambda: "kill edge" in processes.log)
    processes.silent.clear()
    await until(lambda: edge.identity not in ("", before))
    edge.unwatch()


async def test_process_stopped_by_the_kernel_is_killed_by_a_signal(
    processes: FakeProcesses, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped, killed = set[str](), list[str]()
    monkeypatch.setattr(process_state, "is_halted", lambda identity, _proc: identity in stopped)

    def kill_process(identity: str) -> bool:
        killed.append(identity)
        return True

    monkeypatch.setattr(module, "kill_process", kill_process)
    edge = launched(processes, settings, EDGE)
    edge.watch(lambda _failure: None)
    await until(lambda: bool(edge.identity))
    stopped.add(edge.identity)
    await until(lambda: bool(killed))
    assert killed[0] == edge.identity
    assert processes.log == [], "a kill through Ray would take five seconds more"
    edge.unwatch()


async def test_process_that_does_not_start_is_killed(
    processes: FakeProcesses, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "ROLE_START_SECONDS", 0.01)
    edge = launched(processes, settings, EDGE)
    processes.silent.add("edge")
    edge.watch(lambda _failure: None)
    await until(lambda: "kill edge" in processes.log)
    edge.unwatch()


async def test_silent_process_is_not_killed_during_its_replacement(
    processes: FakeProcesses, settings: Settings
) -> None:
    edge = launched(processes, settings, EDGE)
    edge.watch(lambda _failure: None)
    await until(lambda: bool(edge.identity))
    edge._replacing = True
    processes.silent.add("edge")
    await asyncio.sleep(5 * SHORT_PROBES.silence_seconds)
    assert processes.log == []
    edge.unwatch()


async def test_each_kill_for_silence_doubles_the_allowed_silence(
    processes: FakeProcesses, settings: Settings
) -> None:
    edge = launched(processes, settings, EDGE)
    allowed = []
    for _ in range(6):
        probes = edge._probes.with_doubled_silence(edge._recent_silence_kills())
        allowed.append(probes.silence_seconds)
        edge._kill_lost("silent")
    assert allowed == [SHORT_PROBES.silence_seconds * times for times in (1, 2, 4, 8, 8, 8)]
