"""The page at ``/``: links to the other pages, as HTML or, for programs, as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Final, NamedTuple

import orjson
from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from api.http.scope import PREFIX
from api.http.security_headers import HTML_HEADERS


class PageLink(NamedTuple):
    """A link of the page."""

    path: str
    label: str
    about: str


API_LINKS: Final = {
    "console": PageLink("/console", "Console", "Transactions, cards, programmes, rules and webhooks, live"),
    "try": PageLink("/docs", "Try the API", "Send requests from the browser"),
    "reference": PageLink("/docs/reference", "API reference", "Every operation, with examples"),
    "openapi": PageLink("/docs/openapi.json", "OpenAPI description", "For tools and generated clients"),
    "problems": PageLink("/problems", "Problems", "Every error of the API, and what to do about it"),
    "health": PageLink("/healthz", "Health", "Whether this server runs"),
}
VISION_LINKS: Final = {"health": PageLink("/healthz", "Health", "Whether this server runs")}

_PAGE: Final = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<link rel="icon" href="data:,">
<style>
:root {{ color-scheme: light dark; --page: #f6f7f9; --panel: #fff; --text: #1a2230; --faint: #566173;
  --line: #dde2ea; --accent: #1f4fa3 }}
@media (prefers-color-scheme: dark) {{ :root {{ --page: #11151c; --panel: #1a202b; --text: #e6eaf1;
  --faint: #9fabbd; --line: #2d3646; --accent: #8fb4ff }} }}
body {{ margin: 0; background: var(--page); color: var(--text); font: 16px/1.55 system-ui, sans-serif }}
main {{ max-width: 880px; margin: 0 auto; padding: 9vh 20px 48px }}
h1 {{ font-size: 34px; line-height: 1.2; margin: 0 0 8px; letter-spacing: -0.02em }}
p {{ margin: 0; color: var(--faint) }}
ul {{ list-style: none; margin: 32px 0 0; padding: 0; display: grid; gap: 14px;
  grid-template-columns: repeat(auto-fit, minmax(min(250px, 100%), 1fr)) }}
li {{ display: flex }}
a {{ flex: 1; display: block; padding: 16px 18px; border: 1px solid var(--line); border-radius: 10px;
  background: var(--panel); color: var(--accent); font-weight: 600; text-decoration: none }}
a span {{ display: block; margin-top: 2px; color: var(--faint); font-weight: 400; font-size: 14px }}
a:hover, a:focus-visible {{ border-color: var(--accent) }}
</style>
</head>
<body>
<main>
<h1>{title}</h1>
<p>{text}</p>
<ul>
{links}
</ul>
</main>
</body>
</html>
"""


def add_landing(app: FastAPI, title: str, text: str, links: Mapping[str, PageLink]) -> None:
    """Serve ``/``; ``links`` are by the name that programs see."""

    async def landing(request: Request) -> Response:
        prefix, headers = request.scope.get(PREFIX, ""), {"Vary": "Accept"}
        if "text/html" not in request.headers.get("accept", ""):
            paths = {name: prefix + link.path for name, link in links.items()}
            data = orjson.dumps({"name": title, "links": paths})
            return Response(data, headers=headers, media_type="application/json")
        items = (
            f'<li><a href="{escape(prefix + link.path)}">{escape(link.label)}'
            f"<span>{escape(link.about)}</span></a></li>"
            for link in links.values()
        )
        page = _PAGE.format(title=escape(title), text=escape(text), links="\n".join(items))
        return HTMLResponse(page, headers=HTML_HEADERS | headers)

    app.add_route("/", landing)
