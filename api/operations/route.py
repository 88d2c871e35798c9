"""The route class of all operations, and the order of the checks of a request.

401, 429, 403; then the body as such (408, 413, 415, 400); the idempotency key (400, 409, 429, or the stored
answer); the models (400); then the handler's 404 and 409.

FastAPI reads and parses a body before it solves dependencies. So ``OperationRoute`` admits the caller and
reads the body strictly before it hands the request to FastAPI, whose order of dependencies and models is the
rest of the list.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from http.client import BAD_REQUEST
from typing import Any, Final

import structlog
from fastapi import APIRouter, Security
from fastapi.dependencies.models import Dependant
from fastapi.exceptions import RequestValidationError
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match
from starlette.types import Receive, Scope, Send

from actors.log import ACT
from api.access.admission import Admission
from api.access.permissions import PERMISSIONS, Permission
from api.http.late_route import LateRoute
from api.http.problems import Refusal, not_found, problem_response
from api.http.refusals import Responses, headers, refusals, slugs_of
from api.http.scope import OPERATION, REQUEST_ID
from api.http.strict_request import StrictRequest
from api.http.validation import field_errors, validated
from api.operations.acts import RECORDED
from api.operations.call import CALLER, CLAIM, Empty, Replay, bearer
from api.operations.idempotency import keep_refusal
from engine.scopes import ROLES, includes

_COMMON: Final = (
    "unauthorized",
    "insufficient-scope",
    "rate-limited",
    "internal-error",
    "dependency-unavailable",
)
_BODY: Final = (
    "invalid-json",
    "validation-failed",
    "request-timeout",
    "content-too-large",
    "unsupported-media-type",
)
_KEY: Final = (
    "idempotency-key-invalid",
    "idempotency-key-reused",
    "idempotency-in-progress",
    "quota-of-day-reached",
)

_log = structlog.get_logger(__name__)

Handler = Callable[[Request], Coroutine[Any, Any, Response]]


def new_router(tag: str) -> APIRouter:
    """A router for operations on one kind of resource; ``tag`` groups them in the description.

    An operation is named after its function, and a name without a permission is an error at import.
    """
    return APIRouter(
        tags=[tag],
        route_class=OperationRoute,
        generate_unique_id_function=lambda route: route.name,
        strict_content_type=False,
    )


class OperationRoute(LateRoute):
    """One operation, named after its function."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        self.permission: Permission = PERMISSIONS[endpoint.__name__]
        super().__init__(path, endpoint, **options)
        self._beginning = path.partition("{")[0]

    def _build(self, options: dict[str, Any]) -> None:
        model = options.get("response_model")
        summary, _, about = (inspect.getdoc(self.endpoint) or "").partition("\n")
        options["summary"] = summary.rstrip(".")
        options["description"] = f"{about.strip()}\n\n{_demands(self.permission)}".strip()
        options["response_description"] = inspect.getdoc(model) if model else "Done; there is no body."
        needed = Security(bearer, scopes=[self.permission.scope])
        options["dependencies"] = [needed, *(options.get("dependencies") or ())]
        super()._build(options)
        self.responses = self._described(self.responses)

    @property
    def method(self) -> str:
        """The operation's one HTTP method."""
        return next(iter(self.methods or ()))

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """A GET also answers HEAD, as routes of Starlette do; the server leaves the body out."""
        # Most routes are ruled out by their first characters, at a tenth of the cost of a regular expression.
        if not scope["path"].startswith(self._beginning):
            return Match.NONE, {}
        match, child_scope = super().matches(scope)
        return (Match.FULL if match is Match.PARTIAL and self._is_head(scope) else match), child_scope

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        await (self.app if self._is_head(scope) else super().handle)(scope, receive, send)

    def _is_head(self, scope: Scope) -> bool:
        return self.method == "GET" and scope["method"] == "HEAD"

    def get_route_handler(self) -> Handler:
        """FastAPI's handler, between the checks before it and the storing of refusals after it."""
        solve = super().get_route_handler()
        absent: Any = {} if self._body_may_be_absent() else None

        async def handle(request: Request) -> Response:
            request.scope[OPERATION] = self.name
            strict = StrictRequest(request.scope, request.receive)
            admission: Admission = request.app.state.admission
            caller = request.scope[CALLER] = await admission.admit(strict, self.permission)
            if self.method == "GET":
                self._require_known_query(strict)
            else:
                await strict.read_body(absent=absent)
            return await admission.handle(caller, partial(_answered, solve, strict))

        return handle

    def _body_may_be_absent(self) -> bool:
        """Whether a request without a body is one with an empty object."""
        model: Any = self.body_field.field_info.annotation if self.body_field else None
        members = model.model_fields.values() if model else ()
        return self.method in {"POST", "DELETE"} and not any(each.is_required() for each in members)

    def _require_known_query(self, request: StrictRequest) -> None:
        """Refuse repeated parameters; FastAPI refuses unknown ones only where the operation has a query."""
        request.require_single_parameters()
        if not self.dependant.query_params:
            validated(Empty, dict(request.query_params))

    def _described(self, own: Responses) -> Responses:
        """The responses of the description: the success with its headers, and every possible problem."""
        key = next(_headers(self.dependant), None)
        slugs = [*_COMMON, *slugs_of(own)]
        slugs += ("validation-failed",) if self.method == "GET" else _BODY
        if key is not None:
            slugs += _KEY
            slugs += ("idempotency-key-missing",) if key.field_info.is_required() else ()
        if self.permission.role != "user":
            slugs.append("role-not-allowed")
        if self.permission.test_mode_only:
            slugs.append("test-mode-only")
        named = ("X-Request-Id", *(("Idempotent-Replayed",) if key is not None else ()))
        success = self.status_code or 200
        return {success: {**own.get(success, {}), "headers": headers(*named)}, **refusals(*slugs)}


async def _answered(solve: Handler, request: StrictRequest) -> Response:
    """The answer of an admitted request. A refusal that depends on the request alone is stored under its
    idempotency key; handlers store all other answers."""
    state, scope = request.app.state, request.scope
    try:
        response = await solve(request)
    except Replay as replay:
        return replay.answer
    except (Refusal, RequestValidationError) as failure:
        refusal = failure if isinstance(failure, Refusal) else refusal_of_invalid(failure, request)
        if CLAIM not in scope or not refusal.stored:
            raise refusal from None
        refused = problem_response(refusal, scope[REQUEST_ID], state.services.settings.docs_base_url)
        response = await keep_refusal(state.services, scope[CLAIM], refused)
    if CLAIM in scope:
        state.quotas.stored(scope[CALLER], len(response.body))
    if scope[OPERATION] in RECORDED and response.status_code < BAD_REQUEST:
        _log.info(ACT, every=True, act=scope[OPERATION], actor=f"{scope[CALLER].kind} {scope[CALLER].id}")
    return response


def refusal_of_invalid(invalid: RequestValidationError, request: Request) -> Refusal:
    """The refusal of a request that FastAPI found invalid: for its idempotency key, else for its body or
    query, else for the id in its path, which names no resource."""
    by_place: dict[str, list[Any]] = {}
    for error in invalid.errors():
        by_place.setdefault(error["loc"][0], []).append(error)
    if "header" in by_place:
        kind = "missing" if by_place["header"][0]["type"] == "missing" else "invalid"
        return Refusal(f"idempotency-key-{kind}")
    for place, value in (("body", invalid.body), ("query", dict(request.query_params))):
        if place in by_place:
            errors = field_errors(by_place[place], value, skip=1)
            return Refusal("validation-failed", errors=errors)
    return not_found()


def _headers(dependant: Dependant) -> Iterator[Any]:
    """The headers that an operation's dependencies read: the idempotency key, or none."""
    yield from dependant.header_params
    for each in dependant.dependencies:
        yield from _headers(each)


def _demands(permission: Permission) -> str:
    roles = ", ".join(f"`{role}`" for role in ROLES if includes(role, permission.role))
    return f"Scope: `{permission.scope}`. Roles: {roles}."
