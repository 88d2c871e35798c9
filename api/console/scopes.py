"""The scopes of rules and back-tests in forms and lists: programmes, card products, and cards by their id."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from api.console.api_calls import Problem
from api.console.editor.names import text
from api.console.view import View
from engine.limits import PAGE_LIMIT_MAX

PATHS = {"programme": "/programmes", "card_product": "/card-products", "card": "/cards"}
"""The pages of the objects, below the console."""


class Choice(NamedTuple):
    """One scope of a list of choices. ``value`` is ``TYPE:ID``."""

    value: str
    label: str


class Scopes(NamedTuple):
    """The caller's newest programmes and card products."""

    programmes: list[Choice]
    products: list[Choice]

    def name(self, scope: Mapping[str, str]) -> str | None:
        """The name of a scope; ``None`` for cards and for scopes that are not among the choices."""
        value = f"{scope['type']}:{scope['id']}"
        return next((each.label for each in (*self.programmes, *self.products) if each.value == value), None)


async def scopes_of(view: View) -> Scopes:
    """The choices that the caller may read."""
    programmes = await _named(view, "/v1/programs")
    products = await _named(view, "/v1/card-products")
    of_programme = {each["id"]: each["name"] for each in programmes}
    return Scopes(
        [Choice(f"programme:{each['id']}", each["name"]) for each in programmes],
        [
            Choice(
                f"card_product:{each['id']}",
                f"{each['name']} ({of_programme.get(each['programme_id'], 'programme')})",
            )
            for each in products
        ],
    )


async def _named(view: View, path: str) -> list[dict[str, Any]]:
    answer = await view.api.get(path, limit=PAGE_LIMIT_MAX)
    return [] if isinstance(answer, Problem) else answer["data"]


def scope_of(form: Mapping[str, Any]) -> dict[str, str]:
    """The API's scope of the fields ``choice`` and ``card``."""
    type_, _, id_ = text(form, "choice").partition(":")
    return {"type": type_, "id": id_ or text(form, "card")}


def scope_form(scope: Any) -> dict[str, str]:
    """The fields of a scope of the API, which may be malformed."""
    if not isinstance(scope, Mapping):
        return {"choice": "", "card": ""}
    type_, id_ = str(scope.get("type", "")), str(scope.get("id", ""))
    return {"choice": "card", "card": id_} if type_ == "card" else {"choice": f"{type_}:{id_}", "card": ""}
