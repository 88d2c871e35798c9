"""Dependencies of operations: the caller, the services, and the claim to an idempotency key."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Annotated, Any, Concatenate, Final, ParamSpec

from fastapi import Depends, Header, Path
from fastapi.security import OAuth2
from pydantic import AfterValidator
from starlette.requests import HTTPConnection
from starlette.responses import Response

from api.access.oauth import TOKEN_PATH
from api.access.quotas import Objects, Quotas
from api.access.tokens import Caller
from api.http.problems import Refusal, not_found
from api.http.scope import OPERATION, REQUEST_ID
from api.http.strict_request import StrictRequest
from api.http.validation import Input, broken
from api.operations.idempotency import REPLAYED_HEADER, claim_of, recall
from api.services import Services
from engine.ids import is_id
from engine.limits import IDEMPOTENCY_KEY_CHARS_MAX
from engine.replies import IdempotencyClaim
from engine.scopes import SCOPES

CALLER: Final = "stanchion.caller"
"""Scope key: the admitted ``Caller``."""
CLAIM: Final = "stanchion.claim"
"""Scope key: the request's ``IdempotencyClaim``, if it has a key."""

P = ParamSpec("P")
Resume = Callable[[Services, Response], Awaitable[None]]


class Replay(Exception):  # noqa: N818 -- ends a request with its stored answer; no error
    """Ends a request that was answered before; ``answer`` is its stored answer."""

    def __init__(self, answer: Response) -> None:
        super().__init__()
        self.answer = answer


class Bearer(OAuth2):
    """The security scheme of all operations. ``OperationRoute`` has admitted the caller before."""

    async def __call__(self, connection: HTTPConnection) -> Caller:  # type: ignore[override]
        caller: Caller = connection.scope[CALLER]
        return caller


bearer: Final = Bearer(
    flows={
        "clientCredentials": {
            "tokenUrl": TOKEN_PATH,
            "scopes": {scope: scope.replace(":", ", ").replace("_", " ") for scope in SCOPES},
        }
    },
    scheme_name="oauth2",
)


@dataclass(frozen=True, slots=True)
class Call:
    """An admitted request: its caller, its claim to an idempotency key, and the means to carry it out."""

    services: Services
    quotas: Quotas
    caller: Caller
    claim: IdempotencyClaim | None = None
    operation: str = ""
    """The operation's name, which is also that of the act in the audit log."""
    request_id: str = ""


async def read_call(request: StrictRequest) -> Call:
    """The call of an operation without an idempotency key."""
    state = request.app.state
    scope = request.scope
    return Call(state.services, state.quotas, scope[CALLER], None, scope[OPERATION], scope[REQUEST_ID])


ReadCall = Annotated[Call, Depends(read_call)]

_KEY: Final = Header(
    alias="Idempotency-Key",
    min_length=1,
    max_length=IDEMPOTENCY_KEY_CHARS_MAX,
    pattern="^[!-~]+$",
    description="A fresh random key for each new request, the same one for its repetitions.",
    examples=["6f1c1f4e-5a52-4f0e-9f5c-0b6d3c1c7d11"],
)
RequiredKey = Annotated[str, _KEY]


async def keyed_call(request: StrictRequest, call: ReadCall, key: RequiredKey) -> Call:
    """The call of an operation that demands an ``Idempotency-Key``. Raises ``Replay``, and ``Refusal`` 409
    or 429."""
    return await _claimed(request, call, key)


async def optionally_keyed_call(
    request: StrictRequest, call: ReadCall, key: Annotated[str | None, _KEY] = None
) -> Call:
    """The call of an operation that takes an ``Idempotency-Key``. Raises as ``keyed_call``."""
    return call if key is None else await _claimed(request, call, key)


def resuming(resume: Resume) -> Callable[[StrictRequest, Call, str], Awaitable[Call]]:
    """As ``keyed_call``; ``resume`` finishes an interrupted request before its stored answer is repeated."""

    async def resuming_call(request: StrictRequest, call: ReadCall, key: RequiredKey) -> Call:
        try:
            return await _claimed(request, call, key)
        except Replay as replay:
            await resume(call.services, replay.answer)
            raise

    return resuming_call


async def _claimed(request: StrictRequest, call: Call, key: str) -> Call:
    if len(request.headers.getlist("idempotency-key")) > 1:
        raise Refusal("idempotency-key-invalid")
    claim = claim_of(call.services, call.caller, request, key, request.value)
    stored = await recall(call.services, claim)
    if stored is not None:
        raise Replay(stored)
    call.quotas.admit_key(call.caller)
    request.scope[CLAIM] = claim
    return replace(call, claim=claim)


KeyedCall = Annotated[Call, Depends(keyed_call)]
OptionallyKeyedCall = Annotated[Call, Depends(optionally_keyed_call)]


def require_id(text: str) -> str:
    """The id in lower case. Raises ``Refusal`` 404 for anything that cannot be one."""
    id_ = text.lower()
    if not is_id(id_):
        raise not_found()
    return id_


def _id(text: str) -> str:
    if not is_id(text.lower()):
        raise broken("format", "The path holds no id.")
    return text.lower()


_PATH_ID: Final = Path(alias="id", json_schema_extra={"format": "uuid"})
PathId = Annotated[str, _PATH_ID, AfterValidator(_id)]
"""The id in the path, in lower case. Anything that cannot be an id ends in 404."""
UncheckedPathId = Annotated[str, _PATH_ID]
"""The id in the path as it was sent, for handlers that validate the body themselves: that 400 comes before
the 404 of ``require_id``."""


class Empty(Input):
    """A body or a query without members."""


NO_MEMBERS: Final = Empty()


def creates(
    kind: Objects,
) -> Callable[
    [Callable[Concatenate[Any, P], Awaitable[Response]]], Callable[Concatenate[Any, P], Awaitable[Response]]
]:
    """Count the objects that the decorated operation creates toward the tenant's quota of ``kind``.

    Not a dependency: FastAPI solves dependencies before it validates the body, but 400 comes before 409.
    """

    def counted(handler: Any) -> Any:
        @functools.wraps(handler)
        async def run(*, call: Call, **given: Any) -> Response:
            await call.quotas.admit_object(call.caller, kind)
            try:
                response: Response = await handler(call=call, **given)
            except Refusal as refusal:
                if refusal.kind.status < 500:
                    call.quotas.release_object(call.caller, kind)
                raise
            if REPLAYED_HEADER in response.headers:
                call.quotas.release_object(call.caller, kind)
            return response

        return run

    return counted
