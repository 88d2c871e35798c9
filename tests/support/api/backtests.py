"""Back-tests for tests of the API and the console."""

from __future__ import annotations

from actors.tasks import LocalTasks
from api.backtests.leading import lead, take
from tests.support.api.stack import Installation


async def lead_next(running: Installation) -> None:
    """Lead the next back-test to its end."""
    taken = await take(running.services)
    assert taken is not None
    await lead(running.services, LocalTasks(running.services.settings), taken)
