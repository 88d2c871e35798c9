"""The processes that a new supervisor finds: it keeps those that are as it would make them. No Ray."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from actors.cluster import orphans as module
from actors.cluster.environment import ClusterError
from actors.cluster.orphans import adopt_processes
from actors.cluster.process import origin_of
from actors.peers import PeerFailedError
from actors.placement import PlacedProcess, ProcessSpec, place
from actors.settings import Settings
from tests.support.actors.cluster.fakes import HOME, OTHER, FakeProcesses

SPECS = [
    ProcessSpec("coordinator", "m:c", "supervisor_node"),
    ProcessSpec("edge", "m:e", "each"),
    ProcessSpec("relay", "m:r"),
]


class Found(FakeProcesses):
    """Running processes with their origins and nodes."""

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self.settings = settings
        self.origins: dict[str, str] = {}

    def run(self, name: str, spec: ProcessSpec, node: str = HOME, **changes: Any) -> None:
        """Let a process run that was made of ``spec`` with ``changes`` of its settings."""
        settings = self.settings.replace(**changes)
        self.origins[name] = f"{origin_of(spec.factory, settings, spec.niceness)}@{node}"
        self._start(name)

    async def call(self, name: str, method: str, _payload: bytes) -> bytes:
        assert method == "origin"
        if name not in self.origins:
            raise PeerFailedError(f"{name}: ValueError")
        return self.origins[name].encode()


@pytest.fixture
def found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Found:
    found = Found(Settings.load(var_dir=tmp_path, database_url="postgresql://nowhere/none"))
    monkeypatch.setattr(module, "process_names", lambda _settings: set(found.pids))
    return found


def wanted() -> list[PlacedProcess]:
    return place(SPECS, [HOME, OTHER], HOME)


async def adopted(found: Found) -> dict[str, str]:
    return await adopt_processes(found.settings, found, wanted())  # type: ignore[arg-type]


async def test_processes_that_are_as_wanted_stay(found: Found) -> None:
    coordinator, edge, relay = SPECS
    found.run("coordinator", coordinator)
    found.run("edge", edge)
    found.run("edge@bbbbbbbb.3", edge, OTHER)
    found.run("relay", relay, OTHER)
    found.run("host-aaaaaaaa-1", relay)
    assert await adopted(found) == {
        "coordinator": "coordinator",
        "edge": "edge",
        "edge@bbbbbbbb": "edge@bbbbbbbb.3",
        "relay": "relay",
    }
    assert found.log == []


async def test_other_processes_end(found: Found) -> None:
    coordinator, edge, relay = SPECS
    found.run("coordinator", coordinator, log_level="debug")
    found.run("edge", edge, OTHER)
    found.run("edge@bbbbbbbb", edge, OTHER)
    found.run("edge@bbbbbbbb.1", edge, OTHER)
    found.run("relay", relay, redis_url="redis://other/0")
    found.run("dispatcher-7", relay)
    assert await adopted(found) == {"edge@bbbbbbbb": "edge@bbbbbbbb.1"}
    ended = {line.removeprefix("kill ") for line in found.log if line.startswith("kill ")}
    assert ended == {"coordinator", "edge", "edge@bbbbbbbb", "relay", "dispatcher-7"}
    assert "stop coordinator" not in found.log, "its stop would end the hosts"


async def test_process_of_the_release_before_ends(found: Found) -> None:
    """It does not know the question."""
    found.run("relay", SPECS[2])
    found.origins.clear()
    assert await adopted(found) == {}
    assert found.pids == {}


async def test_process_that_does_not_end_is_an_error(found: Found, monkeypatch: pytest.MonkeyPatch) -> None:
    found.run("relay", SPECS[2], log_level="debug")
    monkeypatch.setattr(module, "ORPHAN_STOP_SECONDS", 0.01)
    monkeypatch.setattr(found, "kill", lambda _name: None)
    with pytest.raises(ClusterError, match="do not end"):
        await adopted(found)
