"""Objects that several pages show beside others: the cards of a list, the options of a filter."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from api.console.api_calls import Problem
from api.console.view import View
from engine.limits import CARD_IDS_MAX, PAGE_LIMIT_MAX


async def cards_of(view: View, ids: Iterable[str]) -> dict[str, Any]:
    """The cards with ``ids`` by id; empty if the session may not read cards."""
    wanted = list(dict.fromkeys(ids))[:CARD_IDS_MAX]
    if not wanted or not view.may("list_cards"):
        return {}
    found = await view.api.get("/v1/cards", ids=",".join(wanted))
    return {} if isinstance(found, Problem) else {card["id"]: card for card in found["data"]}


async def programmes_of(view: View) -> list[dict[str, Any]]:
    """The newest programmes, as the options of a filter."""
    if not view.may("list_programs"):
        return []
    return rows_of(await view.api.get("/v1/programs", limit=PAGE_LIMIT_MAX))


async def programme_choices(view: View) -> list[tuple[str, str]]:
    """Ids and names of the newest programmes that are not closed, as the options of a form."""
    return [(each["id"], each["name"]) for each in await programmes_of(view) if each["status"] != "closed"]


async def one(view: View, operation: str, path: str, **query: Any) -> dict[str, Any] | None:
    """One object of the API; ``None`` if the session may not read it, or if it is not there."""
    if not view.may(operation):
        return None
    found = await view.api.get(path, **query)
    return None if isinstance(found, Problem) else found


def rows_of(answer: Any) -> list[dict[str, Any]]:
    """The rows of a list; none after a problem."""
    if answer is None or isinstance(answer, Problem):
        return []
    rows: list[dict[str, Any]] = answer["data"]
    return rows
