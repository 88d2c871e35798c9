"""Links to networks and processors, as the edges report them."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from api.console.view import PageRoute, View


async def links(_request: Request, view: View) -> Response:
    """The links of the session's mode."""
    found = await view.api.require("/v1/links")
    return view.html("links/list.html", links=found["data"])


PAGES: Final = (PageRoute("/links", links, operation="list_links", label="Links", group="Administration"),)
