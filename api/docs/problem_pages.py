"""A page for each kind of problem, at the address in its ``type``: its meaning and its remedy. Links are
relative, so that they work under a path prefix."""

from __future__ import annotations

from html import escape
from typing import Final

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from api.http.problems import PROBLEMS, not_found
from api.http.security_headers import HTML_HEADERS
from api.problem_kinds.kind import Kind

_PAGE: Final = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title} – Stanchion</title>
<style>
:root {{ color-scheme: light dark }}
body {{ font: 16px/1.5 system-ui, sans-serif }}
body {{ color: light-dark(#1c2330, #e6eaf1); background: light-dark(#fff, #12161d) }}
body {{ max-width: 42rem; margin: 3rem auto; padding: 0 1rem }}
code {{ background: light-dark(#eef1f5, #242c3a); padding: .1em .35em; border-radius: 3px }}
h1 {{ font-size: 1.5rem }} h2 {{ font-size: 1rem; margin-top: 2rem }}
a {{ color: light-dark(#2457a7, #8fb4ff) }}
</style>
</head>
<body>
<main>
{content}
</main>
</body>
</html>
"""


async def problem_page(request: Request) -> Response:
    """The page of one problem. Raises ``Refusal`` 404 for an unknown slug."""
    kind = PROBLEMS.get(request.path_params["slug"])
    if kind is None:
        raise not_found()
    return HTMLResponse(_page(kind), headers=HTML_HEADERS)


async def problem_list(_request: Request) -> Response:
    """The page that lists all problems."""
    rows = "".join(
        f'<li><code>{kind.status}</code> <a href="problems/{slug}">{escape(kind.title)}</a></li>\n'
        for slug, kind in sorted(PROBLEMS.items(), key=lambda item: (item[1].status, item[0]))
    )
    title = "Problems"
    page = _PAGE.format(title=title, content=f"<h1>{title}</h1>\n<ul>\n{rows}</ul>")
    return HTMLResponse(page, headers=HTML_HEADERS)


def _page(kind: Kind) -> str:
    content = (
        f"<h1>{escape(kind.title)}</h1>\n"
        f"<p><code>/problems/{kind.slug}</code> · HTTP status <code>{kind.status}</code></p>\n"
        f"<h2>What it means</h2>\n<p>{escape(kind.meaning)}</p>\n"
        f"<h2>What to do</h2>\n<p>{escape(kind.remedy)}</p>\n"
        '<p><a href="../problems">All problems</a> · <a href="../docs/reference">API reference</a></p>'
    )
    return _PAGE.format(title=escape(kind.title), content=content)
