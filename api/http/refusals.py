"""Refusals in the API description: a response for each status, with an example of each kind of problem."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from api.http.problems import PROBLEM_MEDIA_TYPE, PROBLEMS

Responses = dict[int | str, dict[str, Any]]
"""As the parameter ``responses`` of FastAPI's routes."""

_HEADERS: Final = {
    401: ("WWW-Authenticate",),
    403: ("WWW-Authenticate",),
    409: ("Retry-After",),
    429: ("Retry-After",),
    500: ("Retry-After",),
}


def refusals(*slugs: str) -> Responses:
    """The responses for the problems of ``slugs``, by status."""
    by_status: dict[int, list[str]] = {}
    for slug in dict.fromkeys(slugs):
        by_status.setdefault(PROBLEMS[slug].status, []).append(slug)
    return {
        status: {
            "description": ". ".join(PROBLEMS[slug].title for slug in of_status) + ".",
            "headers": headers("X-Request-Id", *_HEADERS.get(status, ())),
            "content": {
                PROBLEM_MEDIA_TYPE: {
                    "schema": {"$ref": "#/components/schemas/Problem"},
                    "examples": {slug: {"value": _problem(slug)} for slug in of_status},
                }
            },
        }
        for status, of_status in sorted(by_status.items())
    }


def slugs_of(responses: Mapping[int | str, dict[str, Any]]) -> Iterator[str]:
    """The slugs that ``responses`` were made from."""
    for response in responses.values():
        yield from response.get("content", {}).get(PROBLEM_MEDIA_TYPE, {}).get("examples", ())


def headers(*names: str) -> dict[str, Any]:
    """References to headers of the description."""
    return {name: {"$ref": f"#/components/headers/{name}"} for name in names}


def _problem(slug: str) -> dict[str, Any]:
    kind = PROBLEMS[slug]
    body: dict[str, Any] = {
        "type": f"/problems/{slug}",
        "title": kind.title,
        "status": kind.status,
        "detail": kind.meaning,
        "instance": "019aa6f0-4f2c-7cc1-9a31-5b0f6f3f2a7e",
    }
    if slug == "validation-failed":
        body["errors"] = [
            {"pointer": "/amount/currency", "code": "missing", "detail": "This member is required."}
        ]
    return body
