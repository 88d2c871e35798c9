"""The OpenAPI 3.1 description, made from the table of operations and nothing else: what is served is what is
published.

The framework's generator is not used because it does not know what happens before a handler: keys, problem
bodies, limits, scopes. Schemas come from the models that validate requests.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Final

from pydantic import BaseModel, Field
from pydantic.json_schema import models_json_schema

from api.access.oauth import TokenInput, TokenView
from api.docs.examples import Example, recorded, sample
from api.docs.schemas import parameters_of, published
from api.docs.webhooks import webhooks
from api.http.problems import PROBLEM_MEDIA_TYPE, PROBLEMS
from api.http.validation import View
from api.operations.operation import Empty, Operation
from engine.limits import IDEMPOTENCY_KEY_CHARS_MAX
from engine.scopes import SCOPES

API_VERSION: Final = "1.0.0"
TOKEN_PATH: Final = "/v1/oauth/token"
TOKEN_OPERATION: Final = "create_token"

_ABOUT: Final = """
Cards, controls, a ledger, and authorizations over ISO 8583. [The reference](/docs/reference) has all
operations on one page to read; here they can be tried out: press *Authorize* and give a client id and secret.

* Amounts are decimal strings; timestamps are ISO 8601 in UTC with milliseconds; ids are UUIDs, shown in
  lower case.
* Every `POST` and `PUT` takes an `Idempotency-Key`, but for tokens and simulated spends; on `PATCH` and
  `DELETE` it is optional. A repetition within 24 hours gets the stored answer byte for byte, with
  `Idempotent-Replayed: true`. Answers of requests that had an effect are stored, and `validation-failed`.
  Other refusals depend on the state of things and are not: the same key may be tried again.
* Lists are newest first; pass `next_cursor` as `starting_after` as long as `has_more` is true. A filtered
  page may hold fewer rows than `limit`, even none, before the last one.
* A tenant has a share of each server (`429` `rate-limited`), and quotas of objects (`409` `quota-reached`)
  and of answers stored under keys in a day (`429` `quota-of-day-reached`).
* Every error is a problem body (RFC 9457); its `type` leads to a page that explains it.
* What belongs to another tenant, or to the other mode, is `404` exactly as what does not exist.
* The section `webhooks` describes the requests that webhook endpoints get: for each type of event its body,
  its signature header and the answers that count.
* The capture page's host describes its own operations at `/docs/openapi.json` there.
* Unknown members and unknown query parameters are refused: a slip in a name is never silently ignored.
"""

_TAGS: Final = {
    "Tokens": "The first call of every client.",
    "Programmes": "Who holds the ledger, who decides, in which currency and time zone.",
    "Card products": "What cards are issued from.",
    "Cardholders": "Who has cards.",
    "KYC": "Who a cardholder really is.",
    "Cards": "Cards, their state, their controls and their balance.",
    "Simulation": "Test mode: money, and a network that plays the merchant's side over the real wire.",
    "Transactions": "What happened on cards, and why.",
    "Stand-in": "What is decided for a programme whose own decisions cannot be had.",
    "Events": "What happened, in order, for 30 days.",
    "Webhooks": "Where events are sent, and what has become of each delivery.",
}
"""In the order of a newcomer's questions."""

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
_TOKEN: Final = (
    "invalid-request",
    "invalid-json",
    "unsupported-grant-type",
    "invalid-scope",
    "invalid-client",
    "request-timeout",
    "content-too-large",
    "unsupported-media-type",
    "rate-limited",
    "internal-error",
    "dependency-unavailable",
)


class FieldErrorView(View):
    """One broken rule; the rejected value is never repeated."""

    pointer: str
    """JSON pointer into the body, or to the query parameter."""
    code: str
    """Stable: `missing`, `unknown_field`, `type`, `format`, `length`, `range`, `not_allowed`, `invalid`; of
    addresses that may not be called: `malformed`, `scheme`, `userinfo`, `fragment`, `host`, `port`,
    `unresolvable`, `address`."""
    detail: str


class ProblemView(View):
    """Why a request was refused (RFC 9457)."""

    type: str
    """Stable; a page at this address explains the problem."""
    title: str
    status: int
    detail: str
    instance: str
    """The request's id, as in `X-Request-Id`."""
    errors: Annotated[list[FieldErrorView], Field(default_factory=list)]
    error: str = ""
    """At the token endpoint: the error code of RFC 6749."""


def describe(operations: Sequence[Operation]) -> dict[str, Any]:
    """The whole document."""
    schemas, names = _schemas(operations)
    examples = recorded()
    token = _token_operation(schemas, names, examples.get(TOKEN_OPERATION))
    paths: dict[str, dict[str, Any]] = {TOKEN_PATH: {"post": token}}
    for operation in operations:
        methods = paths.setdefault(operation.path, {})
        methods[operation.method.lower()] = _operation(
            operation, schemas, names, examples.get(operation.name)
        )
    read = {names[operation.takes] for operation in operations if operation.method == "GET"} - {
        Empty.__name__
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "Stanchion", "version": API_VERSION, "description": _ABOUT.strip()},
        "tags": _tags(operations),
        "paths": paths,
        "webhooks": webhooks(),
        "components": {
            # Queries are published as parameters.
            "schemas": {name: schema for name, schema in schemas.items() if name not in read},
            "securitySchemes": _security_schemes(),
            "headers": HEADERS,
        },
    }


def _tags(operations: Iterable[Operation]) -> list[dict[str, str]]:
    used = {"Tokens", *(operation.tag for operation in operations)}
    return [{"name": tag, "description": about} for tag, about in _TAGS.items() if tag in used]


def _schemas(operations: Iterable[Operation]) -> tuple[dict[str, Any], dict[type[BaseModel], str]]:
    models: list[type[BaseModel]] = [ProblemView, TokenInput, TokenView]
    for operation in operations:
        models += [operation.takes, *(model for model in operation.gives.values() if model is not None)]
    return schemas_of(models)


def schemas_of(models: Iterable[type[BaseModel]]) -> tuple[dict[str, Any], dict[type[BaseModel], str]]:
    """All schemas under their published names, and the name of each model."""
    pairs = [(model, "validation") for model in dict.fromkeys(models)]
    keys, definitions = models_json_schema(pairs, ref_template="#/components/schemas/{model}")  # type: ignore[arg-type]
    names = {model: keys[model, "validation"]["$ref"].rpartition("/")[2] for model, _ in pairs}
    return published(definitions["$defs"]), {
        model: name.removesuffix("View") for model, name in names.items()
    }


def _operation(
    operation: Operation,
    schemas: dict[str, Any],
    names: dict[type[BaseModel], str],
    example: Example | None,
) -> dict[str, Any]:
    described: dict[str, Any] = {
        "operationId": operation.name,
        "tags": [operation.tag],
        "summary": operation.summary,
        "description": _with_demands(operation),
        "security": [{"oauth2": [operation.permission.scope]}],
        "parameters": _parameters(operation, schemas[names[operation.takes]], example),
        "responses": responses(
            operation.gives, _problems(operation), schemas, names, example, keyed=operation.keyed != "never"
        ),
    }
    if operation.method not in {"GET", "DELETE"}:
        name = names[operation.takes]
        value = sample(schemas[name], schemas) if example is None else example["request"]
        body = {"schema": ref(name), "examples": {"example": {"value": value}}}
        described["requestBody"] = {
            "required": not operation.body_optional,
            "content": {"application/json": body},
        }
    return described


def _with_demands(operation: Operation) -> str:
    permission = operation.permission
    demands = (
        f"Scope: `{permission.scope}`. Roles: {', '.join(f'`{role}`' for role in sorted(permission.roles))}."
    )
    return f"{operation.description}\n\n{demands}".strip()


def _parameters(operation: Operation, query: dict[str, Any], example: Example | None) -> list[dict[str, Any]]:
    parameters: list[dict[str, Any]] = []
    if "{id}" in operation.path:
        id_ = {"type": "string", "format": "uuid"}
        shown = {} if example is None else {"example": example["id"]}
        parameters.append({"name": "id", "in": "path", "required": True, "schema": id_, **shown})
    if operation.method == "GET":
        parameters += parameters_of(query, {} if example is None else example["query"])
    if operation.keyed != "never":
        parameters.append(
            {
                "name": "Idempotency-Key",
                "in": "header",
                "required": operation.keyed == "required",
                "description": "A fresh random key for each new request, the same one for its repetitions.",
                "schema": {
                    "type": "string",
                    "minLength": 1,
                    "maxLength": IDEMPOTENCY_KEY_CHARS_MAX,
                    "pattern": "^[!-~]+$",
                },
                "example": "6f1c1f4e-5a52-4f0e-9f5c-0b6d3c1c7d11",
            }
        )
    return parameters


def _problems(operation: Operation) -> list[str]:
    permission = operation.permission
    slugs = [*_COMMON, *operation.problems]
    slugs += _BODY if operation.method != "GET" else ("validation-failed",)
    if operation.keyed != "never":
        slugs += _KEY
    if operation.keyed == "required":
        slugs.append("idempotency-key-missing")
    if len(permission.roles) == 1:
        slugs.append("role-not-allowed")
    if permission.test_mode_only:
        slugs.append("test-mode-only")
    return list(dict.fromkeys(slugs))


def responses(
    gives: Mapping[int, type[BaseModel] | None],
    slugs: Iterable[str],
    schemas: dict[str, Any],
    names: dict[type[BaseModel], str],
    example: Example | None,
    *,
    keyed: bool,
) -> dict[str, Any]:
    """The answers of an operation by status: those with a model, then the problems of ``slugs``."""
    described: dict[str, Any] = {}
    for status, model in gives.items():
        headers = ["X-Request-Id", *(["Idempotent-Replayed"] if keyed else [])]
        if model is None:
            described[str(status)] = _response("Done; there is no body.", headers)
            continue
        name = names[model]
        known = example is not None and example["status"] == status
        value = example["response"] if known and example else sample(schemas[name], schemas, full=True)
        body = {"application/json": {"schema": ref(name), "examples": {"example": {"value": value}}}}
        described[str(status)] = _response(schemas[name]["description"], headers, body)
    by_status: dict[int, list[str]] = {}
    for slug in slugs:
        by_status.setdefault(PROBLEMS[slug].status, []).append(slug)
    for status, of_status in sorted(by_status.items()):
        content = {
            "schema": ref("Problem"),
            "examples": {slug: {"value": _problem(slug)} for slug in of_status},
        }
        titles = ". ".join(PROBLEMS[slug].title for slug in of_status)
        headers = ["X-Request-Id", *_HEADERS_OF.get(status, ())]
        described[str(status)] = _response(f"{titles}.", headers, {PROBLEM_MEDIA_TYPE: content})
    return described


def _response(description: str, headers: list[str], body: dict[str, Any] | None = None) -> dict[str, Any]:
    """``body`` is content by media type; left out, the answer has none."""
    described = {
        "description": description,
        "headers": {name: {"$ref": f"#/components/headers/{name}"} for name in headers},
    }
    return described if body is None else described | {"content": body}


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


def _token_operation(
    schemas: dict[str, Any], names: dict[type[BaseModel], str], example: Example | None
) -> dict[str, Any]:
    given = sample(schemas[names[TokenInput]], schemas) if example is None else example["request"]
    body = {"schema": ref(names[TokenInput]), "examples": {"example": {"value": given}}}
    return {
        "operationId": TOKEN_OPERATION,
        "tags": ["Tokens"],
        "summary": "Get an access token",
        "description": "OAuth 2.0 client credentials (RFC 6749, section 4.4), in the body or by HTTP Basic. "
        "Without `scope` the token gets all scopes of its client. "
        "Problem bodies carry `error`, the code of RFC 6749.",
        "security": [{"basic": []}, {}],
        "requestBody": {
            "required": True,
            "content": {"application/x-www-form-urlencoded": body, "application/json": body},
        },
        "responses": responses({200: TokenView}, _TOKEN, schemas, names, example, keyed=False),
    }


def _security_schemes() -> dict[str, Any]:
    scopes = {scope: scope.replace(":", ", ").replace("_", " ") for scope in SCOPES}
    return {
        "oauth2": {
            "type": "oauth2",
            "flows": {"clientCredentials": {"tokenUrl": TOKEN_PATH, "scopes": scopes}},
        },
        "basic": {
            "type": "http",
            "scheme": "basic",
            "description": "Client id and secret, at the token endpoint.",
        },
    }


def ref(name: str) -> dict[str, str]:
    """A reference to a schema of the document."""
    return {"$ref": f"#/components/schemas/{name}"}


def _header(description: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": description, "schema": schema}


HEADERS: Final = {
    # By the names that answers refer to.
    "X-Request-Id": _header(
        "Names this request in logs; taken over from the request if it was sent.", {"type": "string"}
    ),
    "Idempotent-Replayed": _header("Present on repetitions.", {"type": "string", "enum": ["true"]}),
    "Retry-After": _header(
        "Seconds to wait, where waiting helps.", {"type": "string", "pattern": "^[0-9]+$"}
    ),
    "WWW-Authenticate": _header("What is needed (RFC 6750).", {"type": "string"}),
}
_HEADERS_OF: Final = {
    401: ("WWW-Authenticate",),
    403: ("WWW-Authenticate",),
    409: ("Retry-After",),
    429: ("Retry-After",),
    500: ("Retry-After",),
}
