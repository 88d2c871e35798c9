"""Sign-in through an OpenID Connect provider: the authorization code flow with PKCE (RFC 6749, RFC 7636,
OpenID Connect Core 1.0).

The state of a flow is sealed in a cookie of ten minutes. The provider's word for a person is its verified
e-mail address.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import ssl
import time
from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

import httpx2
import msgspec
from joserfc import jwt
from joserfc.errors import InvalidKeyIdError, JoseError
from joserfc.jwk import KeySet
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from actors.settings import Settings
from actors.vault import Vault, VaultError
from api.console.templating import NO_STORE, Addresses
from engine.limits import OPENID_FLOW_SECONDS, OPENID_METADATA_SECONDS, OPENID_REQUEST_SECONDS

COOKIE: Final = "stanchion_openid"
SEAL: Final = "openid-flow"
START_PATH: Final = "/sign-in/openid"
CALLBACK_PATH: Final = "/sign-in/openid/callback"
SCOPE: Final = "openid email profile"
ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""Signatures of ID tokens that are accepted: asymmetric ones."""
CLOCK_SLACK_SECONDS: Final = 60
_METADATA: Final = ("issuer", "authorization_endpoint", "token_endpoint", "jwks_uri")


class OpenIdError(Exception):
    """The flow ended without a person. The message is one word for the log, without values."""


class Flow(msgspec.Struct, frozen=True):
    """A flow that has begun in one browser."""

    state: str
    nonce: str
    verifier: str
    next_page: str
    until_ms: int


class Verified(NamedTuple):
    """A person as the provider vouches for it."""

    email: str
    next_page: str


class OpenIdProvider:
    """The provider of one installation, as one API server knows it."""

    def __init__(self, settings: Settings, vault: Vault) -> None:
        self._issuer = settings.oidc_issuer
        self._client_id = settings.oidc_client_id or ""
        self._secret = settings.oidc_client_secret
        self._ca_file = settings.egress_ca_file
        self._vault = vault
        self._metadata: tuple[dict[str, Any], float] | None = None
        self._keys: KeySet | None = None

    @property
    def configured(self) -> bool:
        """Whether the installation has a provider."""
        return self._issuer is not None

    async def begin(self, request: Request, next_page: str, now_ms: int) -> Response:
        """A redirect to the provider. Raises ``OpenIdError``."""
        metadata = await self._discovered()
        flow = Flow(
            secrets.token_urlsafe(32),
            secrets.token_urlsafe(32),
            secrets.token_urlsafe(48),
            next_page,
            now_ms + OPENID_FLOW_SECONDS * 1000,
        )
        query = {
            "response_type": "code",
            "client_id": self._client_id,
            "redirect_uri": _redirect_uri(request),
            "scope": SCOPE,
            "state": flow.state,
            "nonce": flow.nonce,
            "code_challenge": _challenge(flow.verifier),
            "code_challenge_method": "S256",
        }
        endpoint = metadata["authorization_endpoint"]
        joint = "&" if "?" in endpoint else "?"
        response = RedirectResponse(f"{endpoint}{joint}{urlencode(query)}", 303, NO_STORE)
        sealed = self._vault.seal(SEAL, msgspec.json.encode(flow))
        response.set_cookie(
            COOKIE,
            base64.urlsafe_b64encode(sealed).decode(),
            max_age=OPENID_FLOW_SECONDS,
            path=Addresses(request).url(START_PATH),
            secure=request.scope["scheme"] == "https",
            httponly=True,
            samesite="lax",
        )
        return response

    async def finish(self, request: Request, now_ms: int) -> Verified:
        """The person whom the provider sends back with ``request``. Raises ``OpenIdError``."""
        flow = self._flow(request, now_ms)
        given = request.query_params
        if not hmac.compare_digest(given.get("state", "").encode(), flow.state.encode()):
            raise OpenIdError("state")
        if "code" not in given:
            raise OpenIdError("refused")
        metadata = await self._discovered()
        # RFC 9207: a provider that names itself in the answer must be the one that was asked.
        if given.get("iss", metadata["issuer"]) != metadata["issuer"]:
            raise OpenIdError("issuer")
        tokens = await self._exchanged(metadata, request, flow, given["code"])
        claims = await self._claims(metadata, tokens, flow, now_ms)
        if "email" not in claims:
            claims = {**claims, **await self._user_info(metadata, tokens, claims)}
        email = claims.get("email")
        if not isinstance(email, str) or claims.get("email_verified") not in (True, "true"):
            raise OpenIdError("email_not_verified")
        return Verified(email, flow.next_page)

    def _flow(self, request: Request, now_ms: int) -> Flow:
        try:
            sealed = base64.urlsafe_b64decode(request.cookies.get(COOKIE, ""))
            flow = msgspec.json.decode(self._vault.open(SEAL, sealed), type=Flow)
        except (ValueError, VaultError, msgspec.DecodeError):
            raise OpenIdError("no_flow") from None
        if now_ms >= flow.until_ms:
            raise OpenIdError("expired")
        return flow

    async def _exchanged(
        self, metadata: Mapping[str, Any], request: Request, flow: Flow, code: str
    ) -> dict[str, Any]:
        """The tokens for the code."""
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": _redirect_uri(request),
            "code_verifier": flow.verifier,
        }
        methods = metadata.get("token_endpoint_auth_methods_supported", ["client_secret_basic"])
        basic = None
        if self._secret is not None and "client_secret_basic" in methods:
            basic = httpx2.BasicAuth(self._client_id, self._secret.reveal())
        else:
            form["client_id"] = self._client_id
            if self._secret is not None:
                form["client_secret"] = self._secret.reveal()
        return await self._fetched("POST", metadata["token_endpoint"], data=form, auth=basic)

    async def _claims(
        self, metadata: Mapping[str, Any], tokens: Mapping[str, Any], flow: Flow, now_ms: int
    ) -> dict[str, Any]:
        """The claims of a valid ID token for this flow (OpenID Connect Core, section 3.1.3.7)."""
        token = tokens.get("id_token")
        if not isinstance(token, str):
            raise OpenIdError("no_id_token")
        try:
            claims = (await self._decoded(metadata, token)).claims
            rules = jwt.JWTClaimsRegistry(
                now_ms // 1000,
                CLOCK_SLACK_SECONDS,
                iss={"essential": True, "value": metadata["issuer"]},
                sub={"essential": True},
                exp={"essential": True},
                iat={"essential": True},
                nonce={"essential": True, "value": flow.nonce},
            )
            rules.validate(claims)
        except (JoseError, ValueError):
            raise OpenIdError("id_token") from None
        audience = claims.get("aud")
        names = [audience] if isinstance(audience, str) else audience
        if not isinstance(names, list) or self._client_id not in names:
            raise OpenIdError("audience")
        if claims.get("azp", self._client_id) != self._client_id or (len(names) > 1 and "azp" not in claims):
            raise OpenIdError("audience")
        return claims

    async def _decoded(self, metadata: Mapping[str, Any], token: str) -> jwt.Token:
        """The token with a valid signature. Unknown keys are looked up again: providers rotate them."""
        if self._keys is not None:
            try:
                return jwt.decode(token, self._keys, algorithms=ALGORITHMS)
            except (InvalidKeyIdError, ValueError):
                pass  # signed with a newer key
        self._keys = KeySet.import_key_set(await self._fetched("GET", metadata["jwks_uri"]))  # type: ignore[arg-type]
        return jwt.decode(token, self._keys, algorithms=ALGORITHMS)

    async def _user_info(
        self, metadata: Mapping[str, Any], tokens: Mapping[str, Any], claims: Mapping[str, Any]
    ) -> dict[str, Any]:
        """The claims of the UserInfo endpoint, for providers whose ID tokens are short."""
        endpoint, token = metadata.get("userinfo_endpoint"), tokens.get("access_token")
        if endpoint is None or not isinstance(token, str):
            return {}
        found = await self._fetched("GET", endpoint, headers={"Authorization": f"Bearer {token}"})
        if found.get("sub") != claims["sub"]:
            raise OpenIdError("user_info")
        return {name: found[name] for name in ("email", "email_verified") if name in found}

    async def _discovered(self) -> dict[str, Any]:
        """The provider's metadata (OpenID Connect Discovery 1.0)."""
        if self._metadata is not None and time.monotonic() < self._metadata[1]:
            return self._metadata[0]
        assert self._issuer is not None, "routes check that there is a provider"
        address = f"{self._issuer.rstrip('/')}/.well-known/openid-configuration"
        found = await self._fetched("GET", address)
        complete = all(isinstance(found.get(each), str) for each in _METADATA)
        if found.get("issuer") != self._issuer or not complete:
            raise OpenIdError("metadata")
        self._metadata = found, time.monotonic() + OPENID_METADATA_SECONDS
        return found

    async def _fetched(self, method: str, address: str, **options: Any) -> dict[str, Any]:
        """A JSON object from the provider."""
        headers = {"Accept": "application/json"} | options.pop("headers", {})
        context = ssl.create_default_context()
        if self._ca_file is not None:
            context.load_verify_locations(self._ca_file)
        try:
            async with httpx2.AsyncClient(verify=context, timeout=OPENID_REQUEST_SECONDS) as http:
                answer = await http.request(method, address, headers=headers, **options)
            value = answer.json() if answer.status_code == 200 else None
        except (httpx2.HTTPError, ValueError):
            raise OpenIdError("unreachable") from None
        if not isinstance(value, dict):
            raise OpenIdError("provider")
        return value


def _redirect_uri(request: Request) -> str:
    """The address of the callback as the browser reaches it; the provider has it in its list."""
    host = request.headers.get("host", "")
    return f"{request.scope['scheme']}://{host}{Addresses(request).url(CALLBACK_PATH)}"


def _challenge(verifier: str) -> str:
    """The S256 challenge of a verifier (RFC 7636, section 4.2)."""
    digest = hashlib.sha256(verifier.encode()).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
