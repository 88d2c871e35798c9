"""A route is built when an attribute of FastAPI's is first read."""

from __future__ import annotations

import copy
import warnings
from typing import Annotated, Any

import pytest
from fastapi import APIRouter, Query
from starlette.responses import Response

from api.http.late_route import LateRoute
from api.http.validation import Input


class Body(Input):
    """A body."""

    name: str
    """Of the thing."""


class Filters(Input):
    """A query."""

    limit: int = 10
    """Rows on a page."""


@pytest.fixture
def router() -> APIRouter:
    router = APIRouter(route_class=LateRoute)

    @router.post("/things/{id}")
    async def create_thing(id: str, given: Body) -> Response:  # noqa: A002 - the name of the path parameter
        return Response(id + given.name)

    @router.get("/things", include_in_schema=False)
    async def list_things(query: Annotated[Filters, Query()]) -> Response:
        return Response(str(query.limit))

    return router


def routes(router: APIRouter) -> list[Any]:
    return list(router.routes)


def test_matching_does_not_build(router: APIRouter) -> None:
    create, listing = routes(router)
    scope = {"type": "http", "path": "/things/7", "method": "POST"}
    match, found = create.matches(scope)
    assert (match.name, found["path_params"]) == ("FULL", {"id": "7"})
    assert (create.methods, create.name, listing.include_in_schema) == ({"POST"}, "create_thing", False)
    assert not any("dependant" in vars(route) for route in (create, listing))
    assert [each.name for each in create.dependant.path_params] == ["id"]
    assert "app" in vars(create)


def test_models_are_complete_for_fastapi(router: APIRouter) -> None:
    """Otherwise FastAPI's validators would warn at the first request, and descriptions would be missing."""
    create, listing = routes(router)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        value, errors = create.body_field.validate({"name": "box"})
    assert (value, errors) == (Body(name="box"), [])
    [query] = listing.dependant.query_params
    assert query.field_info.annotation.model_fields["limit"].description == "Rows on a page."


def test_unknown_attribute_is_an_error(router: APIRouter) -> None:
    create, _ = routes(router)
    with pytest.raises(AttributeError, match="nothing"):
        _ = create.nothing
    assert copy.copy(create).path == "/things/{id}"
