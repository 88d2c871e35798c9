"""Refusals: one table of problem kinds (``api.problem_kinds``), one exception, one body (RFC 9457).

``type`` is stable and leads to a page that explains the problem and its remedy. A body never repeats a value
of the request: the rejected value may be a card number or a secret.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson
from starlette.responses import Response

from api.problem_kinds import requests, resources, service
from api.problem_kinds.kind import Kind

PROBLEM_MEDIA_TYPE: Final = "application/problem+json"

# These depend on the request alone, so a repetition gets the same answer. Other refusals depend on stored
# state (404, 409), on the caller's rights or on the service; the same idempotency key may be tried again.
_STORED: Final = frozenset({"validation-failed"})

PROBLEMS: Final[dict[str, Kind]] = {
    kind.slug: kind for kind in (*requests.KINDS, *resources.KINDS, *service.KINDS)
}
"""Every kind by its slug."""


@dataclass(frozen=True)
class FieldError:
    """One broken rule: a JSON pointer (RFC 6901) into the body or the query, a stable code, a sentence
    without the value.
    """

    pointer: str
    code: str
    detail: str


class Refusal(Exception):  # noqa: N818 -- a refusal is an answer, not an error of the program
    """Ends a request with a problem body. ``members`` are further members of the body."""

    def __init__(
        self,
        slug: str,
        detail: str | None = None,
        *,
        errors: Sequence[FieldError] = (),
        headers: Mapping[str, str] | None = None,
        members: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(slug)
        self.kind = PROBLEMS[slug]
        self.detail = detail
        self.errors = errors
        self.headers = dict(headers or {})
        self.members = dict(members or {})

    @property
    def stored(self) -> bool:
        """Whether a repetition with the same idempotency key gets this refusal again."""
        return self.kind.slug in _STORED


def not_found() -> Refusal:
    """The 404 for ids. It is the same for unknown ids, other tenants' ids and ids of the other mode."""
    return Refusal("not-found", "There is no such resource.")


def unavailable(seconds: int = 1) -> Refusal:
    """A dependency is down; try again after ``seconds``."""
    return Refusal("dependency-unavailable", headers={"Retry-After": str(seconds)})


def problem_response(refusal: Refusal, request_id: str, base_url: str | None) -> Response:
    """The response of ``refusal``; ``base_url`` is the documentation host, if it is not this one."""
    kind = refusal.kind
    body: dict[str, Any] = {
        "type": f"{base_url or ''}/problems/{kind.slug}",
        "title": kind.title,
        "status": kind.status,
        "detail": refusal.detail or kind.meaning,
        "instance": request_id,
        **refusal.members,
    }
    if refusal.errors:
        body["errors"] = refusal.errors
    return Response(orjson.dumps(body), kind.status, refusal.headers, PROBLEM_MEDIA_TYPE)
