"""Lists with filters that people type: a refused filter is shown on the list's page, not in its place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from api.console.api_calls import PageProblem, Problem
from api.console.view import Pager, View

EMPTY: Final = Pager(None, None)


async def listed(
    view: View, path: str, filters: Mapping[str, Any]
) -> tuple[list[dict[str, Any]], Pager, Problem | None]:
    """One page of a list of the API, the links around it, and the problem of its filters, if there is one."""
    try:
        found, pager = await view.paged(path, **filters)
    except PageProblem as refused:
        if refused.problem.kind != "validation-failed":
            raise
        return [], EMPTY, refused.problem
    return found["data"], pager, None
