"""Processes that are kept alive, put in the place of others, and spread over nodes that come and go; no
Ray."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from actors.cluster import kept as module
from actors.cluster.environment import RestartError
from actors.cluster.kept import Kept
from actors.cluster.liveness import Pulse
from actors.cluster.supervisor import Supervisor
from actors.peers import PeerFailedError, PeerGoneError
from actors.placement import Placed, ProcessSpec, place
from actors.settings import Settings

QUICK = Pulse(ping_seconds=0.001, silence_seconds=0.02, look_seconds=0.001)
HOME, OTHER, THIRD = "a" * 56, "b" * 56, "c" * 56


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while True:
            if holds():
                return
            await asyncio.sleep(0.001)


class Processes:
    """Every process that was launched, and what has happened to it in order."""

    def __init__(self) -> None:
        self.pids: dict[str, int] = {}
        self.barren: set[str] = set()
        """Names that are launched and never serve."""
        self.silent: set[str] = set()
        """Names that leave pings unanswered."""
        self.story: list[str] = []
        self._next = 100

    def launch(
        self, factory: str, settings: Settings, name: str, where: Any, *, restarts: int, niceness: int
    ) -> None:
        self.story.append(f"launch {name}")
        self._begin(name)

    async def ping(self, name: str) -> str:
        await until(lambda: name not in self.silent or name not in self.pids)
        pid = await self.ask(name, "ping")
        return f"elsewhere/{pid}/1"

    async def death(self, name: str) -> None:
        await until(lambda: name not in self.pids)
        raise PeerGoneError(name)

    async def ask(self, name: str, method: str) -> Any:
        if name not in self.pids:
            raise PeerGoneError(name)
        if name in self.barren:
            raise PeerFailedError(name)
        if method == "ping":
            return self.pids[name]
        self.story.append(f"{method} {name}")
        return None

    def kill(self, name: str, *, again: bool = False) -> None:
        self.story.append(f"kill {name}")
        self.pids.pop(name, None)
        if again:
            asyncio.get_running_loop().call_later(0.005, self._begin, name)

    def _begin(self, name: str) -> None:
        self._next += 1
        self.pids[name] = self._next


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> Processes:
    processes = Processes()
    monkeypatch.setattr(module, "launch", processes.launch)
    monkeypatch.setattr(module, "AGAIN_POLL_SECONDS", 0.001)
    monkeypatch.setattr(module, "FAILED_PAUSE_SECONDS", 0.001)
    return processes


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings.load(var_dir=tmp_path, database_url="postgresql://nowhere/none")


def kept(processes: Processes, settings: Settings, spec: ProcessSpec) -> Kept:
    placed = Placed(spec.name, spec, HOME, pinned=False)
    each = Kept(placed, settings, processes, QUICK)  # type: ignore[arg-type]
    each.launch()
    processes.story.clear()
    return each


async def test_a_successor_serves_before_the_old_one_ends(processes: Processes, settings: Settings) -> None:
    edge = kept(processes, settings, ProcessSpec("edge", "m:e", "each"))
    await edge.renew()
    assert processes.story == ["launch edge.1", "stop edge", "kill edge"]
    await edge.renew()
    assert processes.story[3:] == ["launch edge.2", "stop edge.1", "kill edge.1"]
    assert edge.name == "edge.2"
    assert processes.pids.keys() == {"edge.2"}


async def test_a_successor_that_does_not_serve_changes_nothing(
    processes: Processes, settings: Settings
) -> None:
    edge = kept(processes, settings, ProcessSpec("edge", "m:e", "each"))
    processes.barren.add("edge.1")
    with pytest.raises(PeerFailedError):
        await edge.renew()
    assert processes.story == ["launch edge.1", "kill edge.1"]
    assert edge.name == "edge"


async def test_what_others_call_by_name_begins_again_under_it(
    processes: Processes, settings: Settings
) -> None:
    network = kept(processes, settings, ProcessSpec("network", "m:n"))
    before = processes.pids["network"]
    await network.renew()
    assert processes.story == ["stop network", "kill network"]
    assert processes.pids["network"] != before


async def test_the_coordinator_is_not_stopped_because_hosts_would_end_with_it(
    processes: Processes, settings: Settings
) -> None:
    coordinator = kept(processes, settings, ProcessSpec("coordinator", "m:c", "beside"))
    await coordinator.renew()
    assert processes.story == ["kill coordinator"]


async def test_one_that_is_watched_is_waited_for_however_it_fails(
    processes: Processes, settings: Settings
) -> None:
    edge = kept(processes, settings, ProcessSpec("edge", "m:e", "each"))
    failures: list[BaseException] = []
    edge.watch(failures.append)
    processes.barren.add("edge")
    await asyncio.sleep(0.01)
    assert failures == []
    edge.unwatch()
    edge.unwatch()


async def test_silent_process_is_killed_and_started_again(processes: Processes, settings: Settings) -> None:
    edge = kept(processes, settings, ProcessSpec("edge", "m:e", "each"))
    edge.watch(lambda _failure: None)
    await until(lambda: bool(edge.where))
    before = edge.where
    processes.silent.add("edge")
    await until(lambda: "kill edge" in processes.story)
    processes.silent.clear()
    await until(lambda: edge.where not in ("", before))
    edge.unwatch()


async def test_process_that_the_kernel_has_stopped_is_killed_by_a_signal(
    processes: Processes, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped, signalled = set[str](), list[str]()
    monkeypatch.setattr(module, "stands_still", lambda where: where in stopped)

    def end(where: str) -> bool:
        signalled.append(where)
        return True

    monkeypatch.setattr(module, "end", end)
    edge = kept(processes, settings, ProcessSpec("edge", "m:e", "each"))
    edge.watch(lambda _failure: None)
    await until(lambda: bool(edge.where))
    stopped.add(edge.where)
    await until(lambda: bool(signalled))
    assert signalled[0] == edge.where
    assert processes.story == [], "Ray would let it live for five seconds more"
    edge.unwatch()


async def test_process_that_does_not_start_is_killed(
    processes: Processes, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "ROLE_START_SECONDS", 0.01)
    edge = kept(processes, settings, ProcessSpec("edge", "m:e", "each"))
    processes.silent.add("edge")
    edge.watch(lambda _failure: None)
    await until(lambda: "kill edge" in processes.story)
    edge.unwatch()


async def test_process_that_is_renewed_is_not_killed_for_its_silence(
    processes: Processes, settings: Settings
) -> None:
    edge = kept(processes, settings, ProcessSpec("edge", "m:e", "each"))
    edge.watch(lambda _failure: None)
    await until(lambda: bool(edge.where))
    edge._renewing = True
    processes.silent.add("edge")
    await asyncio.sleep(5 * QUICK.silence_seconds)
    assert processes.story == []
    edge.unwatch()


async def test_each_kill_for_silence_doubles_the_patience(processes: Processes, settings: Settings) -> None:
    edge = kept(processes, settings, ProcessSpec("edge", "m:e", "each"))
    patience = []
    for _ in range(6):
        patience.append(edge._pulse.patient(edge._killed_lately()).silence_seconds)
        edge._put_down("silent")
    assert patience == [QUICK.silence_seconds * times for times in (1, 2, 4, 8, 8, 8)]


# --- the supervisor ---------------------------------------------------------------------------------------


SPECS = [
    ProcessSpec("coordinator", "m:c", "beside"),
    ProcessSpec("edge", "m:e", "each"),
    ProcessSpec("dispatcher-0", "m:d", "around"),
    ProcessSpec("api-0", "m:a", "each"),
]


@pytest.fixture
async def supervisor(processes: Processes, settings: Settings) -> AsyncIterator[Supervisor]:
    """One that has started on one node."""
    supervisor = Supervisor(settings, SPECS)
    supervisor._peers = processes  # type: ignore[assignment]
    supervisor._own = HOME
    supervisor._launch(place(SPECS, [HOME], HOME))
    yield supervisor
    for each_kept in supervisor._kept.values():
        each_kept.unwatch()


def test_what_others_wait_for_and_what_loads_most_begins_first(
    supervisor: Supervisor, processes: Processes
) -> None:
    assert processes.story == ["launch coordinator", "launch api-0", "launch dispatcher-0", "launch edge"]
    assert list(supervisor._processes()) == ["coordinator", "edge", "dispatcher-0", "api-0"], (
        "ends in reverse"
    )


async def test_nodes_that_come_and_go_are_followed(supervisor: Supervisor, processes: Processes) -> None:
    alone = {"coordinator", "edge", "dispatcher-0", "api-0"}
    assert set(supervisor._processes()) == alone
    supervisor._follow([HOME, OTHER])
    assert set(supervisor._processes()) == alone | {"edge@bbbbbbbb", "api-0@bbbbbbbb"}
    assert set(processes.story[4:]) == {"launch edge@bbbbbbbb", "launch api-0@bbbbbbbb"}
    supervisor._follow([THIRD, HOME])
    assert set(supervisor._processes()) == alone | {"edge@cccccccc", "api-0@cccccccc"}
    assert {"kill edge@bbbbbbbb", "kill api-0@bbbbbbbb"} <= set(processes.story)
    supervisor._follow([])
    assert set(supervisor._processes()) > alone, "a head that says nothing is no reason to end anything"


def hosts_of(processes: Processes, replace: Callable[[str], str]) -> Callable[[str, str, bytes], Any]:
    async def call(role: str, method: str, payload: bytes) -> bytes:
        assert role == "coordinator"
        if method == "hosts":
            return msgspec.msgpack.encode(["host-1", "host-2"])
        processes.story.append(f"replace {payload.decode()}")
        return replace(payload.decode()).encode()

    return call


async def test_a_restart_renews_everything_hosts_first(
    supervisor: Supervisor, processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "call", hosts_of(processes, lambda old: f"{old}-new"), raising=False)
    before, said = dict(processes.pids), list[str]()
    processes.story.clear()
    await supervisor.restart(said.append)
    assert processes.story[:3] == ["replace host-1", "replace host-2", "kill coordinator"]
    assert [line.split(" (")[0] for line in said] == [
        "host-1 is host-1-new",
        "host-2 is host-2-new",
        *(f"{name} is new" for name in supervisor._kept),
    ]
    assert supervisor._processes() == {
        "coordinator": "coordinator",
        "edge": "edge.1",
        "dispatcher-0": "dispatcher-0.1",
        "api-0": "api-0.1",
    }, "known by the same names as before"
    assert not set(processes.pids.values()) & set(before.values())


async def test_a_restart_ends_where_something_does_not_begin(
    supervisor: Supervisor, processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "call", hosts_of(processes, lambda old: old), raising=False)
    with pytest.raises(RestartError, match="host-1 could not give its shards away"):
        await supervisor.restart(lambda _line: None)
    monkeypatch.setattr(processes, "call", hosts_of(processes, lambda _old: ""), raising=False)
    processes.barren.add("edge.1")
    said = list[str]()
    with pytest.raises(RestartError, match="edge does not begin"):
        await supervisor.restart(said.append)
    assert "host-1 is gone" in said[0]
    assert "edge" in processes.pids, "the old one serves on"
    assert "api-0" in supervisor._processes(), "and so does what was not reached"
