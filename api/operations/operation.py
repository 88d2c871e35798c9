"""An operation: what it is called, what it takes and gives, and the one path every request walks to its
handler.

The order of checks is fixed here (contract, section 3): 401, 429, 403, then 400 for what can be judged
without looking, then the handler's 404 and 409. A family of operations declares them with ``Family``;
``Endpoint`` runs them.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Generic, Literal, TypeVar

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

from api.access.permissions import PERMISSIONS, Permission, permit
from api.access.quotas import Objects, Quotas
from api.access.rate_limits import RateLimits
from api.access.tokens import Caller, Tokens
from api.http.json_body import read_json
from api.http.problems import Refusal, not_found, problem_response
from api.http.scope import OPERATION, REQUEST_ID, TENANT
from api.http.validation import Input, validated
from api.operations.idempotency import REPLAYED_HEADER, claim_of, keep_refusal, recall
from api.services import Services
from engine.ids import is_id
from engine.replies import IdempotencyClaim

KYC_WRITES: Final = "kyc:write"
"""The scope whose operations have a rate limit of their own (spec 4.1)."""

B = TypeVar("B")
Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
Keyed = Literal["required", "optional", "never"]

# PUT and POST must be safe to repeat; spends are distinct wire transactions and say so themselves.
_KEYED: Final[dict[Method, Keyed]] = {
    "POST": "required",
    "PUT": "required",
    "PATCH": "optional",
    "DELETE": "optional",
}


class Empty(Input):
    """A body or a query without members."""


@dataclass(slots=True)
class Call(Generic[B]):
    """One admitted request. ``given`` is its validated body, or its validated query where the operation
    reads.
    """

    services: Services
    caller: Caller
    request: Request
    given: B
    claim: IdempotencyClaim | None = None

    def path_id(self, name: str = "id") -> str:
        """An id of the path, in lower case. Raises ``Refusal`` 404 for anything that cannot be one."""
        id_: str = self.request.path_params[name].lower()
        if not is_id(id_):
            raise not_found()
        return id_


Handler = Callable[[Call[Any]], Awaitable[Response]]
Resume = Callable[[Services, Response], Awaitable[None]]


@dataclass(frozen=True)
class Operation:
    """One operation of the API; everything that the description says of it."""

    name: str
    method: Method
    path: str
    tag: str
    handler: Handler
    takes: type[Input]
    """Model of the body, or of the query where the method is GET."""
    gives: Mapping[int, type[BaseModel] | None]
    """Models of the answers by status; ``None`` for an answer without a body."""
    problems: tuple[str, ...]
    """Slugs that the handler itself can answer with, beyond those of the common path."""
    keyed: Keyed
    permission: Permission
    published: bool = True
    """Whether the public description names it."""
    creates: Objects | None = None
    """The kind of object that it creates, where a quota limits their number."""
    resume: Resume | None = None
    """Finishes what an earlier request with the key left undone, before its stored answer is repeated."""

    @property
    def body_optional(self) -> bool:
        """Whether a POST or DELETE without a body is one with an empty object."""
        needed = any(member.is_required() for member in self.takes.model_fields.values())
        return self.method in {"POST", "DELETE"} and not needed

    @property
    def summary(self) -> str:
        """The first line of the handler's docstring."""
        return inspect.getdoc(self.handler).partition("\n")[0].rstrip(".")  # type: ignore[union-attr]

    @property
    def description(self) -> str:
        """The rest of the handler's docstring."""
        return inspect.getdoc(self.handler).partition("\n")[2].strip()  # type: ignore[union-attr]


@dataclass
class Family:
    """The operations of one kind of resource; ``tag`` groups them in the description."""

    tag: str
    operations: list[Operation] = field(default_factory=list)

    def operation(
        self,
        method: Method,
        path: str,
        name: str,
        *,
        takes: type[Input] = Empty,
        gives: Mapping[int, type[BaseModel] | None],
        problems: tuple[str, ...] = (),
        keyed: Keyed | None = None,
        published: bool = True,
        creates: Objects | None = None,
        resume: Resume | None = None,
    ) -> Callable[[Callable[[Call[Any]], Awaitable[Response]]], Handler]:
        """Declare the decorated handler. A name without a permission is an error at import."""

        def declare(handler: Handler) -> Handler:
            policy = keyed or _KEYED.get(method, "never")
            permission = PERMISSIONS[name]
            about = (name, method, path, self.tag, handler, takes, gives, problems, policy, permission)
            self.operations.append(Operation(*about, published, creates, resume))
            return handler

        return declare


class Endpoint:
    """Runs one operation: an ASGI-side handler for the router."""

    def __init__(
        self,
        operation: Operation,
        services: Services,
        tokens: Tokens,
        limits: RateLimits,
        quotas: Quotas,
    ) -> None:
        self._operation = operation
        self._quotas = quotas
        self._services = services
        self._tokens = tokens
        self._limits = limits

    async def run(self, request: Request) -> Response:
        """The response to ``request``. Raises ``Refusal``, and whatever a fault raises."""
        operation = self._operation
        request.scope[OPERATION] = operation.name
        caller = await self._tokens.caller(request)
        TENANT.set(caller.tenant_id)
        # Simulations are loads of their own making: their way to the decision sheds what is too much.
        if caller.live or not operation.permission.test_mode_only:
            await self._limits.admit(caller)
        permit(operation.permission, caller)
        if operation.permission.scope == KYC_WRITES:
            await self._limits.admit_kyc_write(caller)
        if operation.method == "GET":
            given = validated(operation.takes, query_of(request))
            return await operation.handler(Call(self._services, caller, request, given))
        body = await read_json(request)
        if operation.keyed == "never":
            given = validated(operation.takes, body)
            return await operation.handler(Call(self._services, caller, request, given))
        return await self._run_keyed(request, caller, body)

    async def _run_keyed(self, request: Request, caller: Caller, body: Any) -> Response:
        services, operation = self._services, self._operation
        claim = claim_of(services, caller, request, body, required=operation.keyed == "required")
        stored = None if claim is None else await recall(services, claim)
        if stored is not None:
            if operation.resume is not None:
                await operation.resume(services, stored)
            return stored
        if claim is not None:
            self._quotas.admit_key(caller)
        try:
            given = validated(operation.takes, {} if body is None and operation.body_optional else body)
            response = await self._handle(Call(services, caller, request, given, claim))
        except Refusal as refusal:
            if claim is None or not refusal.stored:
                raise
            refused = problem_response(refusal, request.scope[REQUEST_ID], services.settings.docs_base_url)
            response = await keep_refusal(services, claim, refused)
        if claim is not None:
            self._quotas.stored(caller, len(response.body))
        return response

    async def _handle(self, call: Call[Any]) -> Response:
        """Run the handler; what it creates counts for the tenant's quota."""
        kind = self._operation.creates
        if kind is None:
            return await self._operation.handler(call)
        await self._quotas.admit_object(call.caller, kind)
        try:
            response = await self._operation.handler(call)
        except Refusal as refusal:
            if refusal.kind.status < 500:
                self._quotas.not_created(call.caller, kind)
            raise
        if REPLAYED_HEADER in response.headers:
            self._quotas.not_created(call.caller, kind)
        return response


def query_of(request: Request) -> dict[str, str]:
    """The query parameters. Raises ``Refusal`` when one is given twice: receivers would disagree about which
    counts.
    """
    pairs = request.query_params.multi_items()
    query = dict(pairs)
    if len(query) != len(pairs):
        raise Refusal("validation-failed", "A query parameter is given more than once.")
    return query
