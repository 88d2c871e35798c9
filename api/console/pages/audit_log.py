"""The newest administrative acts."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from api.console import figures
from api.console.view import PageRoute, View
from api.database.pool import connected


async def audit_log(_request: Request, view: View) -> Response:
    """The newest acts, with their changes."""
    async with connected(view.services.pool) as connection:
        entries = await figures.audit_log(connection, view.caller)
    return view.html("audit_log.html", entries=entries)


PAGES: Final = (
    PageRoute(
        "/audit-log",
        audit_log,
        operation="list_audit_log",
        label="Audit log",
        group="Administration",
    ),
)
