"""Bearer tokens (RFC 6750): opaque, looked up by keyed digest, cached for less than a second.

The cache keeps the database out of the hot path. Its lifetime is the time for which a revoked token can still
be used.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import asyncpg
import msgspec
from starlette.requests import Request

from actors.batcher import Coalescer
from api.access.credentials import ROLE
from api.database.pool import fetch
from api.http.headers import header
from api.http.problems import Refusal
from api.services import Services
from engine.acts import ActorKind
from engine.limits import TOKEN_CACHE_SECONDS, TOKENS_CACHED_MAX
from engine.scopes import Mode

TOKEN_PURPOSE: Final = "access-token"

_BEARER: Final = re.compile(r"[Bb][Ee][Aa][Rr][Ee][Rr] +([A-Za-z0-9._~+/-]{1,512}=*)", re.ASCII)
_FIND: Final = f"""
    SELECT t.token_digest, c.id::text, c.tenant_id::text, c.live, {ROLE.format("c")}, t.scopes,
           (extract(epoch FROM t.expires_at) * 1000)::bigint AS expires_ms
    FROM access_tokens t JOIN clients c ON c.id = t.client
    WHERE t.token_digest = ANY ($1::bytea[]) AND t.revoked_at IS NULL AND t.expires_at > now()
      AND c.revoked_at IS NULL
"""


class Caller(msgspec.Struct, frozen=True):
    """The client behind a valid token, or the user of a console session. ``tenant_id`` and ``live`` are part
    of every query made for it."""

    id: str
    tenant_id: str
    live: bool
    role: str
    scopes: frozenset[str]
    expires_ms: int
    kind: ActorKind = "client"
    modes: frozenset[Mode] = frozenset()
    """The modes of a user; a client has one mode, that of ``live``."""

    @property
    def mode(self) -> Mode:
        """The mode of this call."""
        return "live" if self.live else "test"

    @property
    def all_modes(self) -> frozenset[Mode]:
        """Every mode that the caller may use."""
        return self.modes or frozenset((self.mode,))


class Tokens:
    """Finds callers; one for each API server."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._known: dict[bytes, tuple[Caller, float]] = {}
        self._look_ups: Coalescer[bytes, Caller | None] = Coalescer(self._read)

    async def caller(self, request: Request) -> Caller:
        """The client whose token the request carries. Raises ``Refusal`` 401."""
        match = _BEARER.fullmatch(header(request, b"authorization") or "")
        if match is None:
            raise _unauthorized("Bearer")
        return await self.bearer(match[1])

    async def bearer(self, token: str) -> Caller:
        """The client that holds ``token``. Raises ``Refusal`` 401."""
        digest = self._services.vault.digest(TOKEN_PURPOSE, token.encode())
        clock = self._services.clock
        caller, until = self._known.get(digest, (None, 0.0))
        if caller is None or clock.monotonic() >= until:
            caller = await self._look_ups.get(digest)
        if caller is None or clock.now_ms() >= caller.expires_ms:
            raise _unauthorized('Bearer error="invalid_token"')
        return caller

    async def _read(self, digests: Sequence[bytes]) -> list[Caller | None]:
        """Look tokens up. Cached entries of one second expire together, so their look-ups share a
        statement."""
        # From before the statement, so that a revocation during it counts.
        until = self._services.clock.monotonic() + TOKEN_CACHE_SECONDS
        rows = await fetch(self._services.pool, _FIND, list(set(digests)))
        found = {row["token_digest"]: _caller(row) for row in rows}
        for digest in digests:
            self._known.pop(digest, None)
        while len(self._known) + len(found) > TOKENS_CACHED_MAX:
            del self._known[next(iter(self._known))]
        self._known |= {digest: (caller, until) for digest, caller in found.items()}
        return [found.get(digest) for digest in digests]


def _caller(row: asyncpg.Record) -> Caller:
    fields = {name: row[name] for name in ("id", "tenant_id", "live", "role", "expires_ms")}
    return Caller(**fields, scopes=frozenset(row["scopes"]))


def _unauthorized(challenge: str) -> Refusal:
    return Refusal("unauthorized", headers={"WWW-Authenticate": challenge})
