"""Environments: a set-up that fails is taken down too."""

from __future__ import annotations

import pytest

from ops.chaos.environment.base import Environment
from ops.chaos.errors import NotInjectedError


class TwoServers(Environment):
    def __init__(self, *, fails: bool) -> None:
        super().__init__()
        self.fails = fails
        self.log: list[str] = []

    async def _set_up(self) -> None:
        for name in ("database", "cache"):
            self.log.append(f"start {name}")
            self._stack.callback(self.log.append, f"stop {name}")
        if self.fails:
            raise NotInjectedError("no memory")


STARTED = ["start database", "start cache"]
STOPPED = ["stop cache", "stop database"]


async def test_servers_exist_inside_the_block() -> None:
    async with TwoServers(fails=False) as servers:
        assert servers.log == STARTED
    assert servers.log == STARTED + STOPPED


async def test_failed_set_up_is_taken_down() -> None:
    servers = TwoServers(fails=True)
    with pytest.raises(NotInjectedError):
        await servers.__aenter__()
    assert servers.log == STARTED + STOPPED
