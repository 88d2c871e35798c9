"""The page at ``/``: links to the other pages, as HTML or, for programs, as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Final

import orjson
from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from api.http.security_headers import HTML_HEADERS

API_LINKS: Final = {
    "console": ("/console", "Console"),
    "try": ("/docs", "API, to try out"),
    "reference": ("/docs/reference", "API reference"),
    "openapi": ("/docs/openapi.json", "OpenAPI description"),
    "problems": ("/problems", "Problems and what to do about them"),
    "health": ("/healthz", "Health of this server"),
}
VISION_LINKS: Final = {"health": ("/healthz", "Health of this server")}

_PAGE: Final = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark }}
body {{ font: 16px/1.6 system-ui, sans-serif; max-width: 42rem; margin: 3rem auto; padding: 0 1rem }}
</style>
</head>
<body>
<h1>{title}</h1>
<p>{text}</p>
<ul>
{links}
</ul>
</body>
</html>
"""


def add_landing(app: FastAPI, title: str, text: str, links: Mapping[str, tuple[str, str]]) -> None:
    """Serve ``/``; ``links``: path and label by the name that programs see."""
    items = (f'<li><a href="{path}">{escape(label)}</a></li>' for path, label in links.values())
    page = _PAGE.format(title=escape(title), text=escape(text), links="\n".join(items))
    data = orjson.dumps({"name": title, "links": {name: path for name, (path, _label) in links.items()}})

    async def landing(request: Request) -> Response:
        headers = {"Vary": "Accept"}
        if "text/html" in request.headers.get("accept", ""):
            return HTMLResponse(page, headers=HTML_HEADERS | headers)
        return Response(data, headers=headers, media_type="application/json")

    app.add_route("/", landing)
