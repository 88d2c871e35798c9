"""A local Ray that loses a server is started again with all processes, while those that serve go on. No
Ray."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from actors.cluster import kept as kept_module
from actors.cluster import supervisor as module
from actors.cluster.environment import ClusterError, RestartError
from actors.cluster.readiness import NotReadyError
from actors.cluster.supervisor import Supervisor
from actors.placement import ProcessSpec, place
from actors.settings import Settings
from tests.actors.cluster.test_kept import HOME, Processes, until

SPECS = [
    ProcessSpec("coordinator", "m:c", "beside"),
    ProcessSpec("edge", "m:e", "each"),
    ProcessSpec("relay", "m:r"),
    ProcessSpec("dispatcher-0", "m:d", "around"),
]


class Ray:
    """A local Ray: its servers, and what was done to it, in order, with what was done to processes."""

    def __init__(self, story: list[str]) -> None:
        self.story = story
        self.missing = ""
        self.refusals = 0

    def look(self) -> str:
        return self.missing

    async def lost(self) -> str:
        await until(lambda: bool(self.missing))
        return self.missing

    def learn(self) -> None:
        self.missing = ""

    def processes(self) -> set[str]:
        return {"elsewhere/a-host/1"}

    def kill(self) -> None:
        self.story.append("kill ray")

    def join(self, _settings: Settings) -> None:
        self.story.append("join")
        if self.refusals:
            self.refusals -= 1
            raise ClusterError("Ray does not start")

    def leave(self, _settings: Settings) -> None:
        self.story.append("leave")


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> Processes:
    processes = Processes()
    monkeypatch.setattr(kept_module, "launch", processes.launch)
    monkeypatch.setattr(kept_module, "AGAIN_POLL_SECONDS", 0.001)
    return processes


@pytest.fixture
def ray(processes: Processes, monkeypatch: pytest.MonkeyPatch) -> Ray:
    ray = Ray(processes.story)
    monkeypatch.setattr(module, "join", ray.join)
    monkeypatch.setattr(module, "leave", ray.leave)
    monkeypatch.setattr(module, "here", lambda: HOME)
    monkeypatch.setattr(module, "_take_signals_back", lambda: None)
    monkeypatch.setattr(module, "REBUILD_PAUSE_SECONDS", 0.001)

    def end(where: str) -> None:
        processes.story.append(f"end {where.split('/')[1]}")

    monkeypatch.setattr(module, "end", end)
    return ray


@pytest.fixture
async def supervisor(processes: Processes, ray: Ray, tmp_path: Path) -> AsyncIterator[Supervisor]:
    """One that serves, and guards its Ray."""
    settings = Settings.load(var_dir=tmp_path, database_url="postgresql://nowhere/none")
    supervisor = Supervisor(settings, SPECS)
    processes.forget = processes.table = lambda *_arguments: None  # type: ignore[attr-defined]
    supervisor._peers = processes  # type: ignore[assignment]
    supervisor._ray = ray  # type: ignore[assignment]
    supervisor._own = HOME
    supervisor._launch(place(SPECS, [HOME], HOME))
    supervisor._watch()
    await until(lambda: all(kept.served.is_set() for kept in supervisor._kept.values()))
    processes.story.clear()
    supervisor._guarding = asyncio.create_task(supervisor._guard_ray())
    yield supervisor
    for kept in supervisor._kept.values():
        kept.unwatch()
    supervisor._guarding.cancel()


async def rebuilt(supervisor: Supervisor) -> None:
    await supervisor._rebuilding.wait()
    await until(lambda: not supervisor._rebuilding.is_set())


async def test_everything_is_started_again_and_what_serves_ends_last(
    supervisor: Supervisor, processes: Processes, ray: Ray
) -> None:
    before = {name: kept.where for name, kept in supervisor._kept.items()}
    ray.missing = "raylet"
    await rebuilt(supervisor)
    numbers = {name: where.split("/")[1] for name, where in before.items()}
    assert processes.story == [
        *(f"end {numbers[name]}" for name in ("coordinator", "relay", "dispatcher-0")),
        "kill ray",
        "leave",
        "join",
        "launch coordinator",
        "launch dispatcher-0",
        "launch relay",
        "launch edge",
        "end a-host",
    ], "edge and hosts go on until their successors serve"
    assert all(kept.served.is_set() for kept in supervisor._kept.values())


async def test_ray_that_does_not_start_is_tried_again(
    supervisor: Supervisor, processes: Processes, ray: Ray
) -> None:
    ray.refusals, ray.missing = 3, "gcs_server"
    await rebuilt(supervisor)
    assert processes.story.count("join") == 4


async def test_ray_that_ends_again_is_started_again(
    supervisor: Supervisor, processes: Processes, ray: Ray
) -> None:
    processes.silent.add("edge")
    ray.missing = "raylet"
    await until(lambda: "launch edge" in processes.story)
    processes.silent.clear()
    ray.missing = "gcs_server"
    await rebuilt(supervisor)
    assert processes.story.count("leave") == 2


async def test_installation_is_not_ready_meanwhile(
    supervisor: Supervisor, processes: Processes, ray: Ray
) -> None:
    ray.missing = "raylet"
    with pytest.raises(NotReadyError, match="raylet has ended"):
        await supervisor._checks()["ray"]()
    await supervisor._rebuilding.wait()
    with pytest.raises(NotReadyError, match="is being started again"):
        await supervisor._checks()["ray"]()


async def test_restart_command_ends_when_ray_does(
    supervisor: Supervisor, processes: Processes, ray: Ray, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def call(*_arguments: object) -> bytes:
        await asyncio.Event().wait()
        return b""

    monkeypatch.setattr(processes, "call", call, raising=False)
    restarting = asyncio.create_task(supervisor.restart(lambda _line: None))
    await asyncio.sleep(0)
    ray.missing = "raylet"
    with pytest.raises(RestartError, match="Ray has ended"):
        await restarting


async def test_start_ends_when_ray_does(supervisor: Supervisor, ray: Ray) -> None:
    async def never() -> None:
        await asyncio.Event().wait()

    supervisor._guarding.cancel()  # type: ignore[union-attr]
    ray.missing = "raylet"
    with pytest.raises(ClusterError, match="Ray has ended during the start: raylet"):
        await supervisor._unless_ray_ends(never())
