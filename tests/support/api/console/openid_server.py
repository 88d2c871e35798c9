"""A small OpenID Connect provider over TCP: discovery, authorization with PKCE, tokens, keys and UserInfo.

It checks what a provider must check (client, redirect address, code, verifier), signs real ID tokens, and can
be told to misbehave.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qsl, urlencode

from joserfc import jwt
from joserfc.jwk import KeySet, RSAKey
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from tests.support.api.stack import served

CLIENT_ID = "stanchion"
CLIENT_SECRET = "provider-secret"


class OpenIdServer:
    """The provider. ``person`` are the claims of whoever signs in; ``claims`` override those of the ID
    token."""

    def __init__(self) -> None:
        self.issuer = ""
        self.redirect_uri = ""
        self.person: dict[str, Any] = {"sub": "person-1"}
        self.claims: dict[str, Any] = {}
        self.key = RSAKey.generate_key(2048, {"kid": "first", "use": "sig"})
        self.short_tokens = False
        """Whether the ID token lacks the e-mail address, which UserInfo then has."""
        self.public = False
        """Whether the client has no secret."""
        self._codes: dict[str, dict[str, str]] = {}
        self.app = Starlette(
            routes=[
                Route("/.well-known/openid-configuration", self._metadata),
                Route("/authorize", self._authorize),
                Route("/token", self._token, methods=["POST"]),
                Route("/keys", self._keys),
                Route("/userinfo", self._user_info),
            ]
        )

    def rotate_key(self) -> None:
        """Sign with a new key from now on."""
        self.key = RSAKey.generate_key(2048, {"kid": secrets.token_hex(4), "use": "sig"})

    async def _metadata(self, _request: Request) -> Response:
        return JSONResponse(
            {
                "issuer": self.issuer,
                "authorization_endpoint": f"{self.issuer}/authorize",
                "token_endpoint": f"{self.issuer}/token",
                "jwks_uri": f"{self.issuer}/keys",
                "userinfo_endpoint": f"{self.issuer}/userinfo",
            }
        )

    async def _authorize(self, request: Request) -> Response:
        asked = dict(request.query_params)
        assert asked["response_type"] == "code"
        assert asked["client_id"] == CLIENT_ID
        assert asked["redirect_uri"] == self.redirect_uri
        assert {"openid", "email"} <= set(asked["scope"].split())
        assert asked["code_challenge_method"] == "S256"
        assert len(asked["nonce"]) >= 32
        code = secrets.token_urlsafe(16)
        self._codes[code] = asked
        answer = {"code": code, "state": asked["state"], "iss": self.issuer}
        return RedirectResponse(f"{asked['redirect_uri']}?{urlencode(answer)}")

    async def _token(self, request: Request) -> Response:
        form = dict(parse_qsl((await request.body()).decode()))
        credentials = base64.b64encode(f"{CLIENT_ID}:{CLIENT_SECRET}".encode()).decode()
        if self.public:
            known = form.get("client_id") == CLIENT_ID and "authorization" not in request.headers
        else:
            known = request.headers.get("authorization") == f"Basic {credentials}"
        asked = self._codes.pop(form.get("code", ""), None)
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        if (
            not known
            or asked is None
            or form["grant_type"] != "authorization_code"
            or form["redirect_uri"] != asked["redirect_uri"]
            or challenge != asked["code_challenge"]
        ):
            return JSONResponse({"error": "invalid_grant"}, 400)
        now = int(time.time())
        shown = {"sub": self.person["sub"]} if self.short_tokens else self.person
        claims = {"iss": self.issuer, "aud": CLIENT_ID, "iat": now, "exp": now + 300, "nonce": asked["nonce"]}
        token = jwt.encode(
            {"alg": "RS256", "kid": self.key.kid}, {**claims, **shown, **self.claims}, self.key
        )
        return JSONResponse({"access_token": "access", "token_type": "Bearer", "id_token": token})

    async def _keys(self, _request: Request) -> Response:
        return JSONResponse(KeySet([self.key]).as_dict(private=False))

    async def _user_info(self, request: Request) -> Response:
        assert request.headers["authorization"] == "Bearer access"
        return JSONResponse(self.person)


@asynccontextmanager
async def openid_server() -> AsyncIterator[OpenIdServer]:
    """A provider on a free port."""
    server = OpenIdServer()
    async with served(server.app) as address:  # type: ignore[arg-type]
        server.issuer = address
        yield server
