"""Calls between processes of one machine: answers, faults, ends, and who may call at all."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from actors.cluster import lines
from actors.cluster.lines import Door, Line, dial
from actors.cluster.peers import RayPeers
from actors.peers import PeerFailedError, PeerGoneError
from actors.settings import Settings


class Callee:
    """A process that is called: ``slow`` answers when it is let go, ``broken`` never."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.calls: asyncio.Queue[str] = asyncio.Queue()

    async def answer(self, method: str, payload: bytes) -> bytes:
        self.calls.put_nowait(method)
        if method == "slow":
            await self.go.wait()
        if method == "broken":
            raise LookupError("4560000000000008")
        if method == "cancelled":
            raise asyncio.CancelledError
        return method.encode() + b":" + payload


@pytest.fixture
async def callee() -> Callee:
    return Callee()


@pytest.fixture
async def door(callee: Callee) -> AsyncIterator[Door]:
    door = Door(callee.answer)
    await door.open()
    yield door
    await door.close()


async def dialled(door: Door, lost: list[Line] | None = None) -> Line:
    line = await dial("host-1", door.name, forget if lost is None else lost.append)
    assert line is not None
    return line


def forget(_line: Line) -> None:
    """For those who need not hear of a line's end."""


async def test_an_answer_comes_back(door: Door) -> None:
    line = await dialled(door)
    assert await line.call("execute", b"\x00parcel") == b"execute:\x00parcel"
    assert await line.call("execute", b"") == b"execute:"
    line.close()


async def test_large_and_many_calls_share_a_line(door: Door) -> None:
    line = await dialled(door)
    payloads = [os.urandom(size) for size in (1, 300_000, 5, 1_000_000, 70_000)]
    answers = await asyncio.gather(*(line.call("execute", payload) for payload in payloads))
    assert answers == [b"execute:" + payload for payload in payloads]
    line.close()


async def test_a_slow_call_holds_up_no_other(door: Door, callee: Callee) -> None:
    line = await dialled(door)
    slow = asyncio.create_task(line.call("slow", b"1"))
    assert await line.call("quick", b"2") == b"quick:2"
    assert not slow.done()
    callee.go.set()
    assert await slow == b"slow:1"
    line.close()


async def test_whoever_waits_no_longer_leaves_the_others(door: Door, callee: Callee) -> None:
    line = await dialled(door)
    impatient = asyncio.create_task(line.call("slow", b""))
    patient = asyncio.create_task(line.call("slow", b"mine"))
    assert [await callee.calls.get() for _ in range(2)] == ["slow", "slow"]
    impatient.cancel()
    await asyncio.wait([impatient])
    callee.go.set()
    assert await patient == b"slow:mine"
    line.close()


@pytest.mark.parametrize(("method", "named"), [("broken", "LookupError"), ("cancelled", "CancelledError")])
async def test_a_fault_is_named_and_nothing_of_it_told(door: Door, method: str, named: str) -> None:
    line = await dialled(door)
    with pytest.raises(PeerFailedError) as failure:
        await line.call(method, b"")
    assert str(failure.value) == f"host-1: {named}"
    assert await line.call("execute", b"") == b"execute:", "the line outlives it"
    line.close()


async def test_the_end_of_a_process_reaches_all_who_wait(door: Door, callee: Callee) -> None:
    lost: list[Line] = []
    line = await dialled(door, lost)
    waiting = [asyncio.create_task(line.call("slow", b"")) for _ in range(3)]
    assert [await callee.calls.get() for _ in range(3)] == ["slow"] * 3
    line.close()
    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(result) for result in results] == [PeerGoneError] * 3
    assert lost == [line]
    with pytest.raises(PeerGoneError):
        await line.call("execute", b"")


async def test_a_door_that_is_shut_is_not_reached(callee: Callee) -> None:
    door = Door(callee.answer)
    await door.open()
    await door.close()
    assert await dial("host-1", door.name, forget) is None
    assert await dial("host-1", "", forget) is None


async def test_another_user_is_not_called(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert await dial("host-1", door.name, forget) is None


async def test_another_user_is_not_answered(
    door: Door, callee: Callee, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A caller that looks at nobody's user meets a door that does."""
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stranger:
        stranger.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(stranger, f"\0{door.name}")
        await loop.sock_sendall(stranger, lines._HEADER.pack(7, 0, 7) + b"execute")
        async with asyncio.timeout(60):
            try:
                assert await loop.sock_recv(stranger, 100) == b""
            except ConnectionResetError:
                pass
    assert callee.calls.empty()


class Directory(RayPeers):
    """Peers whose Ray is a table of doors; what goes through it is noted."""

    def __init__(self, settings: Settings, doors: dict[str, str]) -> None:
        super().__init__(settings)
        self.doors = doors
        self.through_ray: list[str] = []

    async def _remote(self, role: str, method: str, *arguments: Any) -> Any:
        self.through_ray.append(method)
        await asyncio.sleep(0)
        if role not in self.doors:
            raise PeerGoneError(role)
        return self.doors[role] if method == "door" else b"through Ray"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(var_dir=tmp_path)


async def test_ray_is_asked_once_where_the_door_is(settings: Settings, door: Door) -> None:
    peers = Directory(settings, {"network": door.name})
    answers = await asyncio.gather(*(peers.call("network", "accept", b"%d" % n) for n in range(5)))
    await peers.ping("network")
    assert answers == [b"accept:%d" % n for n in range(5)]
    assert peers.through_ray == ["door"]
    peers.kill("network")


async def test_calls_go_through_ray_where_no_door_is_reached(settings: Settings) -> None:
    peers = Directory(settings, {"far": "stanchion-on-another-machine", "none": ""})
    for role in ("far", "far", "none"):
        assert await peers.call(role, "accept", b"") == b"through Ray"
    assert peers.through_ray == ["door", "call", "call", "door", "call"]


async def test_the_next_life_has_another_door(settings: Settings, callee: Callee) -> None:
    first = Door(callee.answer)
    await first.open()
    peers = Directory(settings, {"network": first.name})
    waiting = asyncio.create_task(peers.call("network", "slow", b""))
    assert await callee.calls.get() == "slow"
    await first.close()
    peers._lines["network"].close()  # type: ignore[union-attr]  # what its end looks like from here
    with pytest.raises(PeerGoneError):
        await waiting
    second = Door(callee.answer)
    await second.open()
    peers.doors["network"] = second.name
    assert await peers.call("network", "accept", b"2") == b"accept:2"
    assert peers.through_ray == ["door", "door"]
    await second.close()
    peers.kill("network")


async def test_a_process_that_is_gone_has_no_door(settings: Settings) -> None:
    peers = Directory(settings, {})
    for _ in range(2):
        with pytest.raises(PeerGoneError):
            await peers.call("host-1", "execute", b"")
    assert peers.through_ray == ["door", "door"], "asked anew each time"
