"""Two processes of a role in virtual time: death of the active one, lost locks, calls to the active one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from actors import essential, warm_standby
from actors.metrics import Figures
from actors.peers import PeerFailedError, PeerGoneError
from actors.roles import Context
from actors.settings import Settings
from actors.warm_standby import (
    REFUSALS_MAX,
    START_ATTEMPTS,
    START_PAUSE_SECONDS,
    ActivePeer,
    LostLockError,
    NotActiveError,
    WarmStandby,
)
from engine.limits import LEADER_CHECK_SECONDS

pytestmark = pytest.mark.virtual_time

NAMES = ("role", "role-2")
STARTED_SECONDS = START_ATTEMPTS * START_PAUSE_SECONDS


class Server:
    """The database server's lock."""

    holder: FakeLock | None = None
    answers = True


class FakeLock:
    """A session of the server."""

    server: Server

    def __init__(self, _dsn: str, _key: int) -> None:
        pass

    async def try_acquire(self) -> bool | None:
        if not self.server.answers:
            return None
        self.server.holder = self.server.holder or self
        return self.server.holder is self

    async def acquire(self) -> None:
        while not await self.try_acquire():  # noqa: ASYNC110 -- as the lock does
            await asyncio.sleep(0.25)

    def close(self) -> None:
        if self.server.holder is self:
            self.server.holder = None


class CountingRole:
    """A role that returns its name."""

    def __init__(self, context: Context) -> None:
        self.name = context.name
        self.running = False

    async def start(self) -> None:
        self.running = True

    async def call(self, method: str, payload: bytes) -> bytes:
        return self.name.encode() + payload

    def figures(self) -> Figures:
        return {"stanchion_relay_events": 1.0}

    async def stop(self) -> None:
        self.running = False


class Pair:
    """Both processes, as peers of a caller. A process in ``away`` does not answer at all, one in ``dead`` has
    ended."""

    def __init__(self, settings: Settings) -> None:
        self.roles = {
            name: WarmStandby(Context(settings, name, None), 1, CountingRole)  # type: ignore[arg-type]
            for name in NAMES
        }
        self.dead: set[str] = set()
        self.away: set[str] = set()
        self.calls: list[tuple[str, str]] = []

    async def call(self, name: str, method: str, payload: bytes) -> bytes:
        self.calls.append((name, method))
        if name in self.away:
            await asyncio.Event().wait()
        if name in self.dead:
            raise PeerGoneError(name)
        try:
            return await self.roles[name].call(method, payload)
        except NotActiveError as failure:
            raise PeerFailedError(f"{name}: {type(failure).__name__}") from None

    def active(self) -> list[str]:
        return [name for name, role in self.roles.items() if role.figures()["stanchion_role_active"]]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    server = FakeLock.server = Server()
    monkeypatch.setattr(warm_standby, "LeaderLock", FakeLock)
    return server


@pytest.fixture
async def pair(server: Server, tmp_path: Path) -> AsyncIterator[Pair]:
    pair = Pair(Settings.load(var_dir=tmp_path, database_url="postgresql://nowhere/none"))
    for role in pair.roles.values():
        await role.start()
    yield pair
    for role in pair.roles.values():
        await role.stop()


async def test_the_first_is_active_and_the_second_takes_over(pair: Pair) -> None:
    assert pair.active() == ["role"]
    assert "stanchion_relay_events" not in pair.roles["role-2"].figures()
    with pytest.raises(NotActiveError):
        await pair.roles["role-2"].call("accept", b"")
    await pair.roles["role"].stop()
    await asyncio.sleep(0.5)
    assert pair.active() == ["role-2"]


async def test_process_without_the_database_becomes_active_when_it_is_back(
    server: Server, tmp_path: Path
) -> None:
    server.answers = False
    alone = Pair(Settings.load(var_dir=tmp_path, database_url="postgresql://nowhere/none"))
    role = alone.roles["role"]
    await role.start()
    assert alone.active() == []
    server.answers = True
    await asyncio.sleep(1)
    assert alone.active() == ["role"]
    await role.stop()


async def test_active_process_that_lost_its_lock_ends(
    pair: Pair, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[BaseException] = []
    monkeypatch.setattr(essential, "end_process", lambda _name, failure: ended.append(failure))
    server.holder = pair.roles["role-2"]._lock  # type: ignore[assignment]
    await asyncio.sleep((REFUSALS_MAX - 1) * LEADER_CHECK_SECONDS)
    assert not ended, "it may be the lock of its own former session"
    await asyncio.sleep(3 * LEADER_CHECK_SECONDS)
    assert [type(each) for each in ended] == [LostLockError]
    assert "role-2" in pair.active()


async def test_active_process_continues_while_the_database_is_away(pair: Pair, server: Server) -> None:
    server.answers = False
    await asyncio.sleep(60)
    assert pair.active() == ["role"]


async def test_calls_reach_the_active_process(pair: Pair) -> None:
    peer = ActivePeer(pair, NAMES)  # type: ignore[arg-type]
    assert await peer.call("accept", b"!") == b"role!"
    before = len(pair.calls)
    assert await peer.call("accept", b"!") == b"role!"
    assert pair.calls[before:] == [("role", "accept")], "the active process is asked for once"
    await pair.roles["role"].stop()
    await asyncio.sleep(0.5)
    assert await peer.call("accept", b"!") == b"role-2!"


@pytest.mark.parametrize("state", ["dead", "away"])
async def test_call_without_an_answer_is_not_repeated_and_the_next_finds_the_other(
    pair: Pair, state: str
) -> None:
    peer = ActivePeer(pair, NAMES)  # type: ignore[arg-type]
    await peer.call("accept", b"")
    getattr(pair, state).add("role")
    await pair.roles["role"].stop()
    await asyncio.sleep(0.5)
    with pytest.raises(PeerGoneError):
        await peer.call("accept", b"")
    assert await peer.call("accept", b"!") == b"role-2!"


async def test_no_active_process_is_an_error(pair: Pair) -> None:
    pair.dead.update(NAMES)
    with pytest.raises(PeerGoneError):
        await ActivePeer(pair, NAMES).call("accept", b"")  # type: ignore[arg-type]


async def test_process_of_the_release_before_is_active(pair: Pair) -> None:
    pair.dead.add("role-2")

    async def first_release(name: str, method: str, payload: bytes) -> bytes:
        if method == "accept" and name == "role":
            return b"accepted"
        raise PeerGoneError(name) if name == "role-2" else PeerFailedError(f"{name}: ValueError")

    pair.call = first_release  # type: ignore[method-assign]
    assert await ActivePeer(pair, NAMES).call("accept", b"") == b"accepted"  # type: ignore[arg-type]
