"""Commands to a programme's owner: requests are batched, a late grant counts as none, and an outage is ended
once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

import pytest

from actors.shards import exposure as module
from actors.shards.exposure import ExposureClient
from engine.commands import Command, EndOutage, GrantStandIns
from engine.programmes.programme import Programme
from engine.programmes.stand_in import Grant, Outage
from engine.replies import Done, Granted, NotExecuted, Reply
from tests.support.engine.build import NOW_MS, PROGRAMME, an_id, ask, programme

pytestmark = pytest.mark.virtual_time

OUTAGE = Outage(an_id(0xF1), NOW_MS, "EUR")


class Owner:
    """The owner of a programme; it replies while ``gate`` is set."""

    def __init__(self) -> None:
        self.commands: list[Command] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.reachable = True

    def submit(self, command: Command, timeout_ms: int) -> Awaitable[Reply]:
        self.commands.append(command)
        return self._reply(command)

    async def _reply(self, command: Command) -> Reply:
        await self.gate.wait()
        if not self.reachable:
            return NotExecuted("unavailable")
        if isinstance(command, GrantStandIns):
            return Granted(
                tuple(Grant("within_ceilings", used_minor=each.amount_minor) for each in command.asks)
            )
        return Done(200, {"ended": True})


async def test_concurrent_requests_are_batched_and_get_their_own_grants() -> None:
    owner = Owner()
    owner.gate.clear()
    exposure = ExposureClient(owner.submit)
    pending = [
        asyncio.create_task(exposure.grant(PROGRAMME, ask(number, amount_minor=number)))
        for number in range(1, 9)
    ]
    await asyncio.sleep(0.01)
    owner.gate.set()
    grants = await asyncio.gather(*pending)
    assert [grant.used_minor for grant in grants if grant] == list(range(1, 9))
    sizes = [len(command.asks) for command in owner.commands if isinstance(command, GrantStandIns)]
    assert sum(sizes) == 8
    assert len(sizes) <= 2, "one in flight, and one that collected meanwhile"


async def test_programmes_are_batched_separately() -> None:
    owner = Owner()
    exposure = ExposureClient(owner.submit)
    other = an_id(0xB2)
    await asyncio.gather(exposure.grant(PROGRAMME, ask(1)), exposure.grant(other, ask(2)))
    programmes = {command.programme_id for command in owner.commands if isinstance(command, GrantStandIns)}
    assert programmes == {PROGRAMME, other}


async def test_unreachable_owner_grants_nothing() -> None:
    owner = Owner()
    owner.reachable = False
    assert await ExposureClient(owner.submit).grant(PROGRAMME, ask()) is None


async def test_owner_that_does_not_reply_grants_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "STAND_IN_TIMEOUT_MS", 20)
    owner = Owner()
    owner.gate.clear()
    assert await ExposureClient(owner.submit).grant(PROGRAMME, ask()) is None


async def test_outage_is_ended_once_for_several_answers() -> None:
    owner = Owner()
    exposure = ExposureClient(owner.submit)
    known = Programme(programme(), 1, OUTAGE)
    for _ in range(3):
        exposure.end_outage(known)
    await asyncio.sleep(0.01)
    exposure.end_outage(known)
    await asyncio.sleep(0.01)
    (command,) = owner.commands
    assert isinstance(command, EndOutage)
    assert (command.programme_id, command.outage_id) == (PROGRAMME, OUTAGE.id)
    exposure.end_outage(Programme(programme(), 2, None))
    assert len(owner.commands) == 1


async def test_next_answer_retries_to_end_an_outage() -> None:
    owner = Owner()
    owner.reachable = False
    exposure = ExposureClient(owner.submit)
    for _ in range(2):
        exposure.end_outage(Programme(programme(), 1, OUTAGE))
        await asyncio.sleep(0.01)
    assert len(owner.commands) == 2
    await exposure.stop()
