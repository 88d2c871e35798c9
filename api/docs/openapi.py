"""The OpenAPI 3.1 description. FastAPI generates it from the routes; this module adds recorded examples,
public names of schemas, common headers and the webhooks.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import version
from typing import Annotated, Any, Final

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel, Field
from pydantic.json_schema import models_json_schema

from api.access.oauth import TokenInput
from api.docs.examples import Example, answer_content, recorded, sample
from api.docs.schemas import publish
from api.docs.webhooks import webhooks
from api.http.validation import View

API_VERSION: Final = version("stanchion")

_ABOUT: Final = """
Cards, controls, a ledger, and authorizations over ISO 8583. The page `/docs/reference` has all operations to
read; on the page `/docs` they can be tried out with a client id and secret.

* Amounts are decimal strings; timestamps are ISO 8601 in UTC with milliseconds; ids are UUIDs, shown in
  lower case.
* Every `POST` and `PUT` takes an `Idempotency-Key`, except for tokens and simulated spends; on `PATCH` and
  `DELETE` it is optional. A repetition within 24 hours gets the stored answer byte for byte, with
  `Idempotent-Replayed: true`. The API stores answers of requests that had an effect, and
  `validation-failed`. Other refusals depend on the current state and are not stored: the same key may be
  tried again.
* Lists are newest first; pass `next_cursor` as `starting_after` as long as `has_more` is true. A filtered
  page may hold fewer rows than `limit`, even none, before the last one. Objects that are created at the same
  time can appear in a list shortly after newer ones: follow new objects by events or webhooks.
* A tenant has a share of each server (`429` `rate-limited`), and quotas of objects (`409` `quota-reached`)
  and of answers stored under keys in a day (`429` `quota-of-day-reached`).
* Every error is a problem body (RFC 9457); its `type` leads to a page that explains it.
* Objects of another tenant or of the other mode get `404`, exactly like objects that do not exist.
* The section `webhooks` describes the requests that webhook endpoints get: for each type of event its body,
  its signature header and the answers that count.
* The capture page's host describes its own operations at `/docs/openapi.json` there.
* Unknown members and unknown query parameters are refused: a misspelt name is never silently ignored.
"""

_TAGS: Final = {
    "Tokens": "Access tokens: the first call of every client.",
    "Programmes": "Shared settings of cards: ledger, decisions, currency and time zone.",
    "Card products": "Templates from which cards are issued.",
    "Cardholders": "The people to whom cards are issued.",
    "KYC": "Identity verification of cardholders.",
    "Accounts": "Accounts with their balances, transfers of money, and the ledger.",
    "Cards": "Cards, their state, their controls and their balance.",
    "Authorization rules": "Conditions of the issuer that decline purchases; first in shadow, with reports.",
    "Simulation": "Test mode: funding, and a simulated network that acts for merchants over the real wire.",
    "Transactions": "Authorizations, refunds and force posts, with their history and explained decisions.",
    "Exports": "Files of transactions, ledger entries, decisions or stand-ins.",
    "Back-tests": "Changes of controls and authorization rules, tried on recorded decisions.",
    "Settlement": "Daily reports of what programmes owe the networks.",
    "Stand-in": "Decisions in place of a programme whose endpoint gives no usable answer.",
    "Events": "The log of events, in order, for 30 days.",
    "Webhooks": "Endpoints that receive events, and the deliveries to them.",
    "Clients": "API clients of the tenant, managed by its owners.",
    "Users": "People who sign in to the console, managed by the tenant's owners.",
    "Audit log": "Who administered what, when, with what effect.",
    "Links": "Connections with networks and processors.",
}
"""In the order in which a new client needs them."""


class FieldErrorView(View):
    """One validation error. It never contains the rejected value."""

    pointer: str
    """JSON pointer into the body, or to the query parameter."""
    code: str
    """Stable: `missing`, `unknown_field`, `type`, `format`, `length`, `range`, `not_allowed`, `not_found`,
    `invalid`; for refused addresses: `malformed`, `scheme`, `userinfo`, `fragment`, `host`, `port`,
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


def describe(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI document."""
    document = complete(
        get_openapi(
            title="Stanchion",
            version=API_VERSION,
            description=_ABOUT.strip(),
            routes=app.routes,
            separate_input_output_schemas=False,
        ),
        TokenInput,
        examples=recorded(),
    )
    document["components"]["securitySchemes"]["basic"] = _BASIC
    used = {operation["tags"][0] for _, operation in _operations(document)}
    document["tags"] = [{"name": tag, "description": about} for tag, about in _TAGS.items() if tag in used]
    document["webhooks"] = webhooks()
    return document


def complete(
    document: dict[str, Any], *models: type[BaseModel], examples: dict[str, Example]
) -> dict[str, Any]:
    """Add public names, headers, examples, and the schemas of ``models`` to FastAPI's ``document``."""
    pairs = [(model, "validation") for model in (ProblemView, *models)]
    _, extra = models_json_schema(pairs, ref_template="#/components/schemas/{model}")  # type: ignore[arg-type]
    components = document.setdefault("components", {})
    components["schemas"] = components.get("schemas", {}) | extra["$defs"]
    for name in _FASTAPI_SCHEMAS:
        components["schemas"].pop(name, None)
    document = publish(document)
    document["components"]["headers"] = HEADERS
    for method, operation in _operations(document):
        example = examples.get(operation["operationId"])
        for parameter in operation.get("parameters", ()):
            _complete_parameter(parameter, example)
        # Refusals are problem bodies, not FastAPI's 422. The body of a DELETE is always an empty object.
        operation["responses"].pop("422", None)
        if method == "delete":
            operation.pop("requestBody", None)
        _add_examples(operation, document["components"]["schemas"], example)
    return document


def _operations(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every operation with its method."""
    for operations in document["paths"].values():
        yield from operations.items()


def _complete_parameter(parameter: dict[str, Any], example: Example | None) -> None:
    """Remove ``null`` from the schema, because an optional parameter is absent, never null. Add the
    description, and the example of the recorded request.
    """
    schema = parameter["schema"]
    kinds = [each for each in schema.get("anyOf", [schema]) if each.get("type") != "null"]
    kind = {name: value for name, value in kinds[0].items() if name not in {"description", "title"}}
    about = schema.get("description") or kinds[0].get("description")
    if about:
        parameter.setdefault("description", about)
    if parameter["in"] != "query" and "examples" in {**schema, **kind}:
        parameter["example"] = ({**schema, **kind})["examples"][0]
        kind.pop("examples", None)
    elif example is not None:
        given = example["id"] if parameter["in"] == "path" else example["query"].get(parameter["name"])
        if given is not None:
            parameter["example"] = int(given) if kind.get("type") == "integer" else given
    parameter["schema"] = kind


def _add_examples(operation: dict[str, Any], schemas: dict[str, Any], example: Example | None) -> None:
    """Add the recorded request and answer, or samples generated from their schemas."""
    for content in operation.get("requestBody", {}).get("content", {}).values():
        if "schema" in content:
            content["schema"].pop("default", None)
            value = sample(content["schema"], schemas) if example is None else example["request"]
            content["examples"] = {"example": {"value": value}}
    for status, response in operation["responses"].items():
        content = answer_content(response)
        if content is not None:
            known = example is not None and str(example["status"]) == status
            value = (
                example["response"] if known and example else sample(content["schema"], schemas, full=True)
            )
            content["examples"] = {"example": {"value": value}}


def _header(description: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": description, "schema": schema}


HEADERS: Final = {
    # The keys are the names that responses refer to.
    "X-Request-Id": _header(
        "Identifies this request in logs; taken from the request if it sent one.", {"type": "string"}
    ),
    "Idempotent-Replayed": _header("Present on repeated answers.", {"type": "string", "enum": ["true"]}),
    "Retry-After": _header("Seconds to wait before a retry.", {"type": "string", "pattern": "^[0-9]+$"}),
    "WWW-Authenticate": _header("The required authentication (RFC 6750).", {"type": "string"}),
}
_FASTAPI_SCHEMAS: Final = ("HTTPValidationError", "ValidationError")
_BASIC: Final = {
    "type": "http",
    "scheme": "basic",
    "description": "Client id and secret, at the token endpoint.",
}
