"""The edge's reports of its links to the database, where the API reads them.

The API does not ask the edges: their names change when processes are replaced, and a page must not wait for a
process that hangs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from actors.network.database import DatabaseUnavailableError, Run
from actors.network.links.status import LinkStatus
from actors.periodic import PeriodicTask
from engine.limits import LINK_REPORT_SECONDS

_UNREPORTED: Final = ("address", "bytes_received", "edge", "mode", "name")
"""Members with a column of their own, and members that tenants do not see."""


def link_reporter(edge: str, statuses: Callable[[], Sequence[LinkStatus]], run: Run) -> PeriodicTask:
    """Reports ``statuses`` of the process ``edge`` every few seconds, through ``run``."""

    async def report() -> None:
        found = statuses()
        await run(
            "report_links",
            edge,
            [each.name for each in found],
            [each.mode == "live" for each in found],
            [_text(each) for each in found],
        )

    return PeriodicTask("link-reports", report, LINK_REPORT_SECONDS, tolerated=(DatabaseUnavailableError,))


def _text(status: LinkStatus) -> str:
    members = msgspec.structs.asdict(status)
    return msgspec.json.encode({name: members[name] for name in members if name not in _UNREPORTED}).decode()
