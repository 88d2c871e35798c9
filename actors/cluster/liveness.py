"""Failure detection: when a process counts as lost.

Three signs, the first of which decides: the connection to the process ends; on this machine, the kernel
reports it as stopped or ended; a ping stays unanswered for the silence of its ``Pulse``. A watcher that wakes
up much too late after a silence has itself been without processor time, so it pings again before it judges.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, Literal, NamedTuple

from actors.peers import PeerFailedError, PeerGoneError
from engine.limits import (
    HOST_LOOK_SECONDS,
    HOST_PING_SECONDS,
    HOST_SILENCE_SECONDS,
    PULSE_LATE_SECONDS,
    ROLE_LOOK_SECONDS,
    ROLE_PING_SECONDS,
    ROLE_SILENCE_SECONDS,
    STANDSTILL_LOOKS,
)

Loss = Literal["ended", "silent", "stopped"]
"""Why a process counts as lost."""


class Pulse(NamedTuple):
    """How often a process is checked, in seconds, and how much silence it is allowed."""

    ping_seconds: float
    silence_seconds: float
    look_seconds: float
    late_seconds: float = PULSE_LATE_SECONDS
    looks: int = STANDSTILL_LOOKS

    def patient(self, times: int) -> Pulse:
        """The same with the silence doubled ``times`` times."""
        return self._replace(silence_seconds=self.silence_seconds * 2**times)


HOST_PULSE: Final = Pulse(HOST_PING_SECONDS, HOST_SILENCE_SECONDS, HOST_LOOK_SECONDS)
ROLE_PULSE: Final = Pulse(ROLE_PING_SECONDS, ROLE_SILENCE_SECONDS, ROLE_LOOK_SECONDS)

Ping = Callable[[], Awaitable[object]]
"""Returns when the process answers; raises PeerGoneError or PeerFailedError when it cannot."""


async def silence(ping: Ping, pulse: Pulse) -> Loss | None:
    """One ping: ``None`` when the process answers, else how it is lost."""
    loop = asyncio.get_running_loop()
    while True:
        until = loop.time() + pulse.silence_seconds
        try:
            # Not wait_for: before Python 3.12 it can swallow a cancellation.
            async with asyncio.timeout_at(until):
                await ping()
        except (PeerGoneError, PeerFailedError):
            return "ended"
        except TimeoutError:
            if loop.time() - until < pulse.late_seconds:
                return "silent"
        else:
            return None


async def loss(
    ping: Ping, death: Callable[[], Awaitable[None]], stands_still: Callable[[], bool], pulse: Pulse
) -> Loss:
    """Watch a process that serves; returns when it is lost. ``death`` ends or raises when its connection
    does; ``stands_still`` says whether the kernel reports it as stopped or ended."""
    signs: dict[asyncio.Task[Loss], None] = {
        asyncio.create_task(_ended(death)): None,
        asyncio.create_task(_stopped(stands_still, pulse)): None,
        asyncio.create_task(_silent(ping, pulse)): None,
    }
    try:
        done, _ = await asyncio.wait(signs, return_when=asyncio.FIRST_COMPLETED)
        return next(sign for sign in signs if sign in done).result()
    finally:
        for sign in signs:
            sign.cancel()
        await asyncio.gather(*signs, return_exceptions=True)


async def _ended(death: Callable[[], Awaitable[None]]) -> Loss:
    try:
        await death()
    except (PeerGoneError, PeerFailedError):
        pass
    return "ended"


async def _silent(ping: Ping, pulse: Pulse) -> Loss:
    while True:
        if (lost := await silence(ping, pulse)) is not None:
            return lost
        await asyncio.sleep(pulse.ping_seconds)


async def _stopped(stands_still: Callable[[], bool], pulse: Pulse) -> Loss:
    looks = 0
    while looks < pulse.looks:
        await asyncio.sleep(pulse.look_seconds)
        looks = looks + 1 if stands_still() else 0
    return "stopped"
