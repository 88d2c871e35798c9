"""Access tokens for client credentials (RFC 6749, sections 4.4 and 5).

The one operation without a bearer token. Answers do not reveal which clients exist: an unknown id, a revoked
client and a wrong secret take the same work and get the same answer.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import secrets
from collections.abc import Sequence
from inspect import getdoc
from typing import Annotated, Any, Final, Literal, NamedTuple
from urllib.parse import parse_qsl, unquote_plus

from fastapi import FastAPI
from pydantic import ConfigDict
from starlette.requests import Request
from starlette.responses import Response

from api.access.credentials import PROVEN, digest_of
from api.access.rate_limits import RateLimits
from api.access.tokens import TOKEN_PURPOSE
from api.database.pool import fetch_row, transaction
from api.http.answers import json_response
from api.http.fields import example
from api.http.json_body import media_type, parse_json, read_body
from api.http.problems import Refusal
from api.http.refusals import headers, refusals
from api.http.scope import OPERATION
from api.http.validation import Input, View
from api.services import Services
from engine.instant import to_datetime
from engine.limits import OAUTH_FORM_FIELDS_MAX, SECRET_BYTES, TOKEN_SECONDS
from engine.scopes import SCOPES

TOKEN_PATH: Final = "/v1/oauth/token"
OPERATION_NAME: Final = "create_token"
NO_STORE: Final = {"Cache-Control": "no-store", "Pragma": "no-cache"}
PARAMETERS: Final = ("grant_type", "client_id", "client_secret", "scope")

_ABOUT: Final = (
    "OAuth 2.0 client credentials (RFC 6749, section 4.4), in the body or by HTTP Basic. "
    "Without `scope` the token gets all scopes of its client. "
    "Problem bodies carry `error`, the code of RFC 6749."
)
_PROBLEMS: Final = (
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
_ERRORS: Final = {
    "invalid-request": "invalid_request",
    "invalid-client": "invalid_client",
    "unsupported-grant-type": "unsupported_grant_type",
    "invalid-scope": "invalid_scope",
}
_CLIENT: Final = """
    SELECT id::text, secret_digest, scopes,
           CASE WHEN previous_secret_expires_at > now() THEN previous_secret_digest END AS previous_digest
    FROM clients WHERE client_id = $1 AND revoked_at IS NULL
"""
_GRANT: Final = f"""
    INSERT INTO access_tokens (token_digest, client, scopes, expires_at)
    SELECT $1, id, $3, $5::timestamptz + interval '{TOKEN_SECONDS} seconds' FROM clients
    WHERE id = $2::uuid AND {PROVEN.format(digest="$4")}
    FOR SHARE RETURNING true
"""
# Each grant deletes two expired tokens, so the table stays as large as the number of valid tokens.
_SWEEP: Final = """
    DELETE FROM access_tokens WHERE token_digest IN (
        SELECT token_digest FROM access_tokens WHERE expires_at < least(now(), $1) - interval '1 minute'
        ORDER BY expires_at LIMIT 2 FOR UPDATE SKIP LOCKED)
"""


class TokenView(View):
    """A bearer token (RFC 6749, section 5.1)."""

    access_token: str
    token_type: Literal["Bearer"]
    expires_in: Annotated[int, example(TOKEN_SECONDS)]
    scope: Annotated[str, example("cards:read cards:write")]


class TokenInput(Input):
    """A token request; for the description only, because RFC 6749 has its own rules for reading one."""

    model_config = ConfigDict(extra="allow")

    grant_type: Literal["client_credentials"]
    client_id: str = ""
    """Unless HTTP Basic names it."""
    client_secret: str = ""
    """Unless HTTP Basic gives it."""
    scope: Annotated[str, example("cards:read cards:write")] = ""
    """Separated by spaces."""


class Authenticated(NamedTuple):
    """A client that has proved its secret."""

    id: str
    """The id of the client's row, not its ``client_id``."""
    scopes: Sequence[str]
    secret_digest: bytes
    """Of the secret that was given: the current one, or the previous one during a rotation."""


class TokenEndpoint:
    """``POST /v1/oauth/token`` of one API server."""

    def __init__(self, services: Services, limits: RateLimits) -> None:
        self._services = services
        self._limits = limits

    def add_to(self, app: FastAPI) -> None:
        """Add the route. FastAPI does not parse the request: RFC 6749 has rules of its own, for two media
        types."""
        app.add_api_route(
            TOKEN_PATH,
            self.run,
            methods=["POST"],
            operation_id=OPERATION_NAME,
            tags=["Tokens"],
            summary="Get an access token",
            description=_ABOUT,
            response_model=TokenView,
            response_description=getdoc(TokenView) or "",
            responses={200: {"headers": headers("X-Request-Id")}, **refusals(*_PROBLEMS)},
            openapi_extra={
                "security": [{"basic": []}, {}],
                "requestBody": {
                    "required": True,
                    "content": {
                        kind: {"schema": {"$ref": "#/components/schemas/TokenInput"}}
                        for kind in ("application/x-www-form-urlencoded", "application/json")
                    },
                },
            },
        )

    async def run(self, request: Request) -> Response:
        """The response. Every refusal carries ``error`` as RFC 6749, section 5.2, names it, and no response
        may be cached.
        """
        request.scope[OPERATION] = OPERATION_NAME
        try:
            response = await self._grant(request)
        except Refusal as refusal:
            refusal.headers.update(NO_STORE)
            if refusal.kind.status < 500 and refusal.kind.status != 429:
                refusal.members["error"] = _ERRORS.get(refusal.kind.slug, "invalid_request")
            if refusal.kind.status == 401:
                refusal.headers["WWW-Authenticate"] = 'Basic realm="stanchion", charset="UTF-8"'
            raise
        response.headers.update(NO_STORE)
        return response

    async def _grant(self, request: Request) -> Response:
        parameters = await _parameters(request)
        client_id, secret = _credentials(request, parameters)
        client = await self.authenticate(request, client_id, secret)
        grant_type = parameters.get("grant_type")
        if grant_type is None:
            raise Refusal("invalid-request", "The parameter grant_type is missing.")
        if grant_type != "client_credentials":
            raise Refusal("unsupported-grant-type")
        scopes = _scopes(parameters.get("scope"), client.scopes)
        token = await self._issue(client, scopes)
        body = {
            "access_token": token,
            "token_type": "Bearer",
            "expires_in": TOKEN_SECONDS,
            "scope": " ".join(scopes),
        }
        return json_response(200, body)

    async def _issue(self, client: Authenticated, scopes: Sequence[str]) -> str:
        """A new token of ``client``. Raises ``Refusal`` 401 if its secret has just been rotated away."""
        token = secrets.token_urlsafe(SECRET_BYTES)
        digest = self._services.vault.digest(TOKEN_PURPOSE, token.encode())
        async with transaction(self._services.pool) as connection:
            # By the API's clock, as the check of the token: a wrong clock of the database has no effect.
            now = to_datetime(self._services.clock.now_ms())
            proven = (digest, client.id, list(scopes), client.secret_digest)
            if not await connection.fetchval(_GRANT, *proven, now):
                raise Refusal("invalid-client")
            await connection.execute(_SWEEP, now)
        return token

    async def authenticate(self, request: Request, client_id: str, secret: str) -> Authenticated:
        """The client of ``client_id``. Raises ``Refusal`` 401, or 429 for too many failures.

        The right secret always works: others who fail for the same client id must not lock its owner out.
        """
        # PostgreSQL takes no NUL, and no client id has one.
        row = await fetch_row(self._services.pool, _CLIENT, client_id.replace("\0", " "))
        digest = digest_of(self._services.vault, secret)
        # An unknown client and an absent secret are compared too, with a digest that no secret has.
        stored = (row["secret_digest"], row["previous_digest"]) if row is not None else (None, None)
        matches = [hmac.compare_digest(digest, each or bytes(len(digest))) for each in stored]
        if row is None or not any(matches):
            await self._limits.count_failed_authentication(request, client_id)
            raise Refusal("invalid-client")
        return Authenticated(row["id"], row["scopes"], digest)


async def _parameters(request: Request) -> dict[str, str]:
    """The request's parameters; empty ones count as left out, unknown ones are ignored (RFC 6749, section
    3.2).
    """
    raw = await read_body(request)
    kind = media_type(request)
    if kind == "application/x-www-form-urlencoded":
        pairs = _form(raw)
    elif kind == "application/json":
        value = parse_json(raw)
        if not isinstance(value, dict) or not all(
            isinstance(value.get(name, ""), str) for name in PARAMETERS
        ):
            raise Refusal("invalid-request", "The body must be an object, and its parameters texts.")
        pairs = list(value.items())
    else:
        raise Refusal("unsupported-media-type", "Send application/x-www-form-urlencoded or application/json.")
    known = [(name, value) for name, value in pairs if name in PARAMETERS and value]
    if len(dict(known)) != len(known):
        raise Refusal("invalid-request", "A parameter is given more than once.")
    return dict(known)


def _form(raw: bytes) -> list[tuple[str, Any]]:
    try:
        return [
            (name, _text(value))
            for name, value in parse_qsl(
                raw.decode("ascii"),
                keep_blank_values=True,
                errors="strict",
                max_num_fields=OAUTH_FORM_FIELDS_MAX,
            )
        ]
    except ValueError:
        raise Refusal("invalid-request", "The body is not a form.") from None


def _text(value: str) -> str:
    if "\0" in value:
        raise ValueError("NUL")
    return value


def _credentials(request: Request, parameters: dict[str, str]) -> tuple[str, str]:
    """Client id and secret, from HTTP Basic or from the body, never from both. Raises ``Refusal``."""
    header = request.headers.get("authorization")
    if header is None:
        if "client_id" not in parameters or "client_secret" not in parameters:
            raise Refusal("invalid-client", "The request has no client id, or no secret.")
        return parameters["client_id"], parameters["client_secret"]
    client_id, secret = _basic(header)
    if "client_secret" in parameters or parameters.get("client_id", client_id) != client_id:
        raise Refusal("invalid-request", "The client is named both in the body and by HTTP Basic.")
    return client_id, secret


def _basic(header: str) -> tuple[str, str]:
    """The two parts of HTTP Basic, each form-encoded (RFC 6749, section 2.3.1)."""
    scheme, _, encoded = header.partition(" ")
    try:
        decoded = base64.b64decode(encoded.strip(), validate=True).decode()
        client_id, colon, secret = decoded.partition(":")
        if scheme.lower() != "basic" or not colon or "\0" in decoded:
            raise ValueError("not Basic")
        return _text(unquote_plus(client_id, errors="strict")), _text(unquote_plus(secret, errors="strict"))
    except (ValueError, binascii.Error):
        raise Refusal("invalid-client", "The Authorization header is not HTTP Basic.") from None


def _scopes(asked: str | None, granted: Sequence[str]) -> list[str]:
    """The scopes of the new token, in the order of the catalogue. Raises ``Refusal`` when they are not all
    the client's.
    """
    wanted = set(granted) if asked is None else set(asked.split(" "))
    if not wanted <= set(granted):
        raise Refusal("invalid-scope")
    return [scope for scope in SCOPES if scope in wanted]
