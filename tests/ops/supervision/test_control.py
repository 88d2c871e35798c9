"""The control socket: progress, failures and a supervisor that ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from actors.network.links.status import LinkStatus
from ops.supervision import control as module
from ops.supervision.control import SOCKET_FILE, ControlError, ControlServer, Report, links, restart
from tests.support.ops.links import status


class RefusedError(Exception):
    """A failure whose text may be shown."""


class Supervised:
    """A restart whose progress the test controls."""

    def __init__(self) -> None:
        self.begun = 0
        self.go_on = asyncio.Event()
        self.go_on.set()
        self.failure: Exception | None = None

    async def restart(self, report: Report) -> None:
        self.begun += 1
        report("first")
        await self.go_on.wait()
        if self.failure is not None:
            raise self.failure
        report("last")

    async def links(self) -> list[LinkStatus]:
        return [status()]


@pytest.fixture
def supervised() -> Supervised:
    return Supervised()


@pytest.fixture
async def control(supervised: Supervised, tmp_path: Path) -> AsyncIterator[ControlServer]:
    control = ControlServer(tmp_path, supervised.restart, (RefusedError,), supervised.links)
    await control.open()
    yield control
    await control.close()


async def test_every_line_arrives_once_and_in_order(control: ControlServer, tmp_path: Path) -> None:
    for _ in range(2):
        lines: list[str] = []
        await restart(tmp_path, lines.append)
        assert lines == ["first", "last"]


async def test_lines_arrive_without_delay(
    control: ControlServer, supervised: Supervised, tmp_path: Path
) -> None:
    supervised.go_on.clear()
    lines: asyncio.Queue[str] = asyncio.Queue()
    following = asyncio.create_task(restart(tmp_path, lines.put_nowait))
    assert await lines.get() == "first"
    supervised.go_on.set()
    assert await lines.get() == "last"
    await following


async def test_the_caller_waits_while_no_line_is_printed(
    control: ControlServer, supervised: Supervised, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "WAIT_SECONDS", 0.001)
    supervised.go_on.clear()
    lines: asyncio.Queue[str] = asyncio.Queue()
    following = asyncio.create_task(restart(tmp_path, lines.put_nowait))
    assert await lines.get() == "first"
    await asyncio.sleep(0.02)
    assert not following.done()
    supervised.go_on.set()
    await following
    assert await lines.get() == "last"


async def test_a_second_caller_follows_the_running_restart(
    control: ControlServer, supervised: Supervised, tmp_path: Path
) -> None:
    supervised.go_on.clear()
    queues: list[asyncio.Queue[str]] = [asyncio.Queue(), asyncio.Queue()]
    followers = [asyncio.create_task(restart(tmp_path, each.put_nowait)) for each in queues]
    assert [await each.get() for each in queues] == ["first", "first"]
    supervised.go_on.set()
    await asyncio.gather(*followers)
    assert [each.get_nowait() for each in queues] == ["last", "last"]
    assert supervised.begun == 1


@pytest.mark.parametrize(
    ("failure", "text"),
    [
        (RefusedError("the edge did not start"), "the edge did not start"),
        (ValueError("4111"), "ValueError"),
    ],
)
async def test_a_failure_reaches_the_caller_and_a_retry_is_possible(
    control: ControlServer, supervised: Supervised, tmp_path: Path, failure: Exception, text: str
) -> None:
    supervised.failure = failure
    with pytest.raises(ControlError) as raised:
        await restart(tmp_path, lambda _line: None)
    assert str(raised.value) == text
    supervised.failure = None
    await restart(tmp_path, lambda _line: None)


async def test_a_supervisor_that_ends_is_an_error(
    control: ControlServer, supervised: Supervised, tmp_path: Path
) -> None:
    supervised.go_on.clear()
    lines: asyncio.Queue[str] = asyncio.Queue()
    following = asyncio.create_task(restart(tmp_path, lines.put_nowait))
    await lines.get()
    await control.close()
    supervised.go_on.set()
    # The server accepts no connection any more, and open calls end.
    await asyncio.gather(following, return_exceptions=True)
    with pytest.raises(ControlError, match="no installation is running"):
        await restart(tmp_path, lambda _line: None)


async def test_a_missing_socket_is_an_error(tmp_path: Path) -> None:
    (tmp_path / SOCKET_FILE).write_text("stanchion-of-yesterday")
    with pytest.raises(ControlError, match="cannot be reached"):
        await restart(tmp_path, lambda _line: None)


async def test_links_arrive_as_the_supervisor_has_them(control: ControlServer, tmp_path: Path) -> None:
    assert await links(tmp_path) == [status()]


async def test_links_without_an_installation_give_one_line(tmp_path: Path) -> None:
    with pytest.raises(ControlError, match=r"^no installation is running in "):
        await links(tmp_path)
