"""The supervisor restarts a local Ray that loses a server, with all processes, and keeps serving ones until
their successors serve. No Ray."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from actors.cluster import ray_connection, supervised_process
from actors.cluster import supervisor as module
from actors.cluster.environment import ClusterError, RestartError
from actors.cluster.fork_server_process import ForkServer
from actors.cluster.process_set import ProcessSet
from actors.cluster.readiness import NotReadyError
from actors.cluster.supervisor import ClusterSupervisor
from actors.placement import ProcessSpec
from actors.settings import Settings
from tests.support.actors.cluster.fakes import HOME, FakeProcesses, until

SPECS = [
    ProcessSpec("coordinator", "m:c", "supervisor_node"),
    ProcessSpec("edge", "m:e", "each"),
    ProcessSpec("relay", "m:r"),
    ProcessSpec("dispatcher-0", "m:d", "round_robin"),
]


class FakeRay:
    """A local Ray and its servers. ``log`` also receives the calls of ``FakeProcesses``."""

    def __init__(self, log: list[str]) -> None:
        self.log = log
        self.missing = ""
        self.join_failures = 0

    def check(self) -> str:
        return self.missing

    async def lost(self) -> str:
        await until(lambda: bool(self.missing))
        return self.missing

    def learn(self) -> None:
        self.missing = ""

    def processes(self) -> set[str]:
        return {"elsewhere/a-host/1"}

    def kill(self) -> None:
        self.log.append("kill ray")

    def start(self) -> None:
        self.log.append("start fork server")

    def renew(self) -> None:
        self.log.append("renew fork server")

    def join(self, _settings: Settings, _fork_server: ForkServer | None) -> None:
        self.log.append("join")
        if self.join_failures:
            self.join_failures -= 1
            raise ClusterError("Ray does not start")

    def leave(self, _settings: Settings) -> None:
        self.log.append("leave")


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> FakeProcesses:
    processes = FakeProcesses()
    monkeypatch.setattr(supervised_process, "launch", processes.launch)
    monkeypatch.setattr(supervised_process, "RESTART_POLL_SECONDS", 0.001)
    return processes


@pytest.fixture
def ray(processes: FakeProcesses, monkeypatch: pytest.MonkeyPatch) -> FakeRay:
    ray = FakeRay(processes.log)
    monkeypatch.setattr(ray_connection, "join", ray.join)
    monkeypatch.setattr(ray_connection, "leave", ray.leave)
    monkeypatch.setattr(ray_connection, "_restore_signal_handlers", lambda: None)
    monkeypatch.setattr(module, "own_node", lambda: HOME)
    monkeypatch.setattr(module, "REBUILD_PAUSE_SECONDS", 0.001)

    def kill_process(identity: str) -> None:
        processes.log.append(f"end {identity.split('/')[1]}")

    monkeypatch.setattr(module, "kill_process", kill_process)
    monkeypatch.setattr(ray_connection, "kill_process", kill_process)
    return ray


@pytest.fixture
async def supervisor(
    processes: FakeProcesses, ray: FakeRay, tmp_path: Path
) -> AsyncIterator[ClusterSupervisor]:
    """A supervisor whose processes serve and which guards its Ray."""
    settings = Settings.load(var_dir=tmp_path, database_url="postgresql://nowhere/none")
    supervisor = ClusterSupervisor(settings, SPECS)
    processes.table = lambda *_arguments: None  # type: ignore[attr-defined]
    supervisor._peers = supervisor._ray._peers = processes  # type: ignore[assignment]
    supervisor._processes = ProcessSet(settings, SPECS, processes, supervisor._on_failure)  # type: ignore[arg-type]
    supervisor._ray.servers = ray  # type: ignore[assignment]
    supervisor._processes.launch([HOME], HOME)
    supervisor._processes.watch()
    await until(lambda: all(process.serving.is_set() for process in supervisor._processes))
    processes.log.clear()
    supervisor._ray_guard = asyncio.create_task(supervisor._guard_ray())
    yield supervisor
    supervisor._processes.unwatch()
    supervisor._ray_guard.cancel()


async def rebuilt(supervisor: ClusterSupervisor) -> None:
    await supervisor._rebuilding.wait()
    await until(lambda: not supervisor._rebuilding.is_set())


async def test_lost_ray_restarts_with_all_processes_and_serving_ones_end_last(
    supervisor: ClusterSupervisor, processes: FakeProcesses, ray: FakeRay
) -> None:
    pids = {name: process.identity.split("/")[1] for name, process in supervisor._processes.items()}
    ray.missing = "raylet"
    await rebuilt(supervisor)
    assert processes.log == [
        *(f"end {pids[name]}" for name in ("coordinator", "relay", "dispatcher-0")),
        "kill ray",
        "leave",
        "join",
        "launch coordinator",
        "launch dispatcher-0",
        "launch relay",
        "launch edge",
        "end a-host",
    ], "edge and hosts serve until their successors do"
    assert all(process.serving.is_set() for process in supervisor._processes)


async def test_failed_start_of_ray_is_retried(
    supervisor: ClusterSupervisor, processes: FakeProcesses, ray: FakeRay
) -> None:
    ray.join_failures, ray.missing = 3, "gcs_server"
    await rebuilt(supervisor)
    assert processes.log.count("join") == 4


async def test_ray_that_is_lost_during_the_rebuild_is_rebuilt_again(
    supervisor: ClusterSupervisor, processes: FakeProcesses, ray: FakeRay
) -> None:
    processes.silent.add("edge")
    ray.missing = "raylet"
    await until(lambda: "launch edge" in processes.log)
    processes.silent.clear()
    ray.missing = "gcs_server"
    await rebuilt(supervisor)
    assert processes.log.count("leave") == 2


async def test_installation_is_not_ready_while_ray_is_lost_or_rebuilt(
    supervisor: ClusterSupervisor, processes: FakeProcesses, ray: FakeRay
) -> None:
    ray.missing = "raylet"
    with pytest.raises(NotReadyError, match="raylet has ended"):
        await supervisor._checks()["ray"]()
    await supervisor._rebuilding.wait()
    with pytest.raises(NotReadyError, match="is being started again"):
        await supervisor._checks()["ray"]()


async def test_rolling_restart_fails_when_ray_is_lost(
    supervisor: ClusterSupervisor, processes: FakeProcesses, ray: FakeRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def call(*_arguments: object) -> bytes:
        await asyncio.Event().wait()
        return b""

    monkeypatch.setattr(processes, "coordinate", call, raising=False)
    restarting = asyncio.create_task(supervisor.restart(lambda _line: None))
    await asyncio.sleep(0)
    ray.missing = "raylet"
    with pytest.raises(RestartError, match="Ray has ended"):
        await restarting


async def test_rolling_restart_renews_the_fork_server_first(
    supervisor: ClusterSupervisor, processes: FakeProcesses, ray: FakeRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def replace_all(*_arguments: object) -> None:
        processes.log.append("replace all")

    monkeypatch.setattr(module, "replace_all", replace_all)
    supervisor._ray._fork_server = ray  # type: ignore[assignment]
    processes.log.clear()
    await supervisor.restart(lambda _line: None)
    assert processes.log == ["renew fork server", "replace all"]


async def test_start_fails_when_ray_is_lost(supervisor: ClusterSupervisor, ray: FakeRay) -> None:
    async def never() -> None:
        await asyncio.Event().wait()

    assert supervisor._ray_guard is not None
    supervisor._ray_guard.cancel()
    ray.missing = "raylet"
    with pytest.raises(ClusterError, match="Ray has ended during the start: raylet"):
        await supervisor._ray.unless_lost(asyncio.create_task(never()))
