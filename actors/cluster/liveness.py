"""Failure detection: when a process counts as lost.

Three signs are watched, and the first one decides: the connection to the process ends; the kernel of this
machine reports the process as stopped or ended; a ping stays unanswered longer than the ``ProbePolicy``
allows. A watcher that notices a silence much too late had no processor time itself. It pings again before it
reports a loss.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, Literal, NamedTuple

from actors.peers import PeerFailedError, PeerGoneError
from engine.limits import (
    HOST_CHECK_SECONDS,
    HOST_PING_SECONDS,
    HOST_SILENCE_SECONDS,
    ROLE_CHECK_SECONDS,
    ROLE_PING_SECONDS,
    ROLE_SILENCE_SECONDS,
    STOPPED_CONFIRM_SECONDS,
    WATCHER_LATE_SECONDS,
)

Loss = Literal["ended", "silent", "stopped"]
"""Why a process counts as lost."""


class ProbePolicy(NamedTuple):
    """Intervals and tolerances of failure detection, in seconds."""

    ping_seconds: float
    """Interval between pings."""
    silence_seconds: float
    """An unanswered ping counts as a loss after this time."""
    check_seconds: float
    """Interval between checks of the kernel's process state."""
    late_seconds: float = WATCHER_LATE_SECONDS
    """A watcher that notices a silence this much too late had no processor time itself, and pings again."""
    confirm_seconds: float = STOPPED_CONFIRM_SECONDS
    """A process that a check finds stopped or ended counts as lost if it still is after this time."""

    def with_doubled_silence(self, times: int) -> ProbePolicy:
        """The same policy with ``silence_seconds`` doubled ``times`` times."""
        return self._replace(silence_seconds=self.silence_seconds * 2**times)


HOST_PROBES: Final = ProbePolicy(HOST_PING_SECONDS, HOST_SILENCE_SECONDS, HOST_CHECK_SECONDS)
ROLE_PROBES: Final = ProbePolicy(ROLE_PING_SECONDS, ROLE_SILENCE_SECONDS, ROLE_CHECK_SECONDS)

Ping = Callable[[], Awaitable[object]]
"""Returns when the process answers; raises PeerGoneError or PeerFailedError when it cannot answer."""


async def probe(ping: Ping, policy: ProbePolicy) -> Loss | None:
    """Ping once; returns ``None`` when the process answers, else how it is lost."""
    loop = asyncio.get_running_loop()
    while True:
        until = loop.time() + policy.silence_seconds
        try:
            # Not wait_for: before Python 3.12 it can swallow a cancellation.
            async with asyncio.timeout_at(until):
                await ping()
        except (PeerGoneError, PeerFailedError):
            return "ended"
        except TimeoutError:
            if loop.time() - until < policy.late_seconds:
                return "silent"
        else:
            return None


class Checks:
    """Calls conditions at multiples of ``seconds``, at most one and a half of them after they are added. All
    are called in one wake-up of this process, by one timer and without a task for each."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._conditions: dict[asyncio.Future[None], Callable[[], bool]] = {}
        self._timer: asyncio.TimerHandle | None = None

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until ``condition`` is true; raises what it raises."""
        met: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._conditions[met] = condition
        if self._timer is None:
            self._start_timer()
        try:
            await met
        finally:
            del self._conditions[met]

    def _start_timer(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(until_tick(self._seconds), self._check)

    def _check(self) -> None:
        self._timer = None
        for met, condition in self._conditions.items():
            if not met.done():
                try:
                    if condition():
                        met.set_result(None)
                except Exception as fault:  # noqa: BLE001 - the waiter of this condition raises it
                    met.set_exception(fault)
        if self._conditions:
            self._start_timer()


async def wait_lost(
    ping: Ping,
    death: Callable[[], Awaitable[None]],
    is_halted: Callable[[], bool],
    policy: ProbePolicy,
    checks: Checks,
) -> Loss:
    """Watch a serving process; returns when it is lost. ``death`` returns or raises when the connection ends;
    ``is_halted`` says whether the kernel reports the process as stopped or ended, and ``checks`` calls it."""
    watchers: dict[asyncio.Task[Loss], None] = {
        asyncio.create_task(_wait_ended(death)): None,
        asyncio.create_task(_wait_stopped(is_halted, policy, checks)): None,
        asyncio.create_task(_wait_silent(ping, policy)): None,
    }
    try:
        done, _ = await asyncio.wait(watchers, return_when=asyncio.FIRST_COMPLETED)
        return next(watcher for watcher in watchers if watcher in done).result()
    finally:
        for watcher in watchers:
            watcher.cancel()
        await asyncio.gather(*watchers, return_exceptions=True)


async def ends_before(death: Callable[[], Awaitable[None]], event: asyncio.Event) -> bool:
    """Wait until the connection ends or ``event`` is set; returns whether the connection has ended."""
    ending, setting = asyncio.create_task(_wait_ended(death)), asyncio.create_task(event.wait())
    try:
        await asyncio.wait((ending, setting), return_when=asyncio.FIRST_COMPLETED)
        return ending.done()
    finally:
        for task in (ending, setting):
            task.cancel()
        await asyncio.gather(ending, setting, return_exceptions=True)


async def _wait_ended(death: Callable[[], Awaitable[None]]) -> Loss:
    try:
        await death()
    except (PeerGoneError, PeerFailedError):
        pass
    return "ended"


async def _wait_silent(ping: Ping, policy: ProbePolicy) -> Loss:
    while True:
        if (lost := await probe(ping, policy)) is not None:
            return lost
        await tick(policy.ping_seconds)


async def _wait_stopped(is_halted: Callable[[], bool], policy: ProbePolicy, checks: Checks) -> Loss:
    while True:
        await checks.until(is_halted)
        await asyncio.sleep(policy.confirm_seconds)
        if is_halted():
            return "stopped"


async def tick(seconds: float) -> None:
    """Sleep until a multiple of ``seconds``, at least half of it and at most one and a half. Watchers of
    many processes then wake together, which costs one wake-up of this process instead of one for each."""
    await asyncio.sleep(until_tick(seconds))


def until_tick(seconds: float) -> float:
    """The seconds that ``tick`` sleeps from now on."""
    remaining = seconds - asyncio.get_running_loop().time() % seconds
    return remaining if remaining >= seconds / 2 else remaining + seconds
