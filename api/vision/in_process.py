"""The in-process identity-verification component; it works on the same cases as the API."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec

from api.database.pool import fetch_row, transaction
from api.http.problems import Refusal
from api.http.scope import TENANT
from api.kyc.advance import add_inputs, write
from api.kyc.capture import TOKEN_PURPOSE
from api.kyc.cases import FIND_ANY, Check, check_of
from api.kyc.policy import accepted_types
from api.services import Services
from api.vision.component import NO_SESSION, Answer
from engine.instant import to_datetime, to_ms, to_text
from engine.kyc.case import DOCUMENT_TYPE
from engine.kyc.flows import DOCUMENT_TYPES, EVIDENCE
from engine.limits import EVIDENCE_STORED_AT_ONCE

OVERTAKEN_MAX: Final = 5
"""Attempts at a change when concurrent changes win, for example two pictures sent at once."""

_SESSION: Final = """
    SELECT s.kind, s.expires_at, s.check_id::text FROM kyc_capture_sessions s
    WHERE s.token_digest = $1 AND s.expires_at > $2
"""


class Session(msgspec.Struct, frozen=True):
    """An open capture session with the current state of its check."""

    kind: str
    expires_at: str
    check: Check


class InProcessVerification:
    """See ``IdentityVerification``."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._storing = asyncio.Semaphore(EVIDENCE_STORED_AT_ONCE)

    async def set_document_type(self, capture_session_token: str, document_type: str) -> Answer:
        async def change(session: Session) -> Answer:
            code = await self._class_refused(session, document_type)
            if code is not None:
                return Answer(400, code=code)
            if not session.check.case.collecting:
                return NO_SESSION
            check = await self._take(session.check, {}, document_type)
            return Answer(200, {"check_id": check.id, DOCUMENT_TYPE: document_type, "bound": True})

        return await self._repeated(capture_session_token, change)

    async def describe(self, capture_session_token: str) -> Answer:
        session = await self._session(capture_session_token)
        if session is None:
            return NO_SESSION
        check = session.check
        return Answer(
            200,
            {
                "check_id": check.id,
                "kind": session.kind,
                "document_types": await accepted_types(self._services, check),
                DOCUMENT_TYPE: check.case.document_type,
                "locked": check.case.evidence_attached,
                "awaiting": list(_wanted(check)),
                "expires_at": session.expires_at,
            },
        )

    async def attach(self, capture_session_token: str, name: str, picture: bytes) -> Answer:
        async def change(session: Session) -> Answer:
            if not session.check.case.collecting:
                return NO_SESSION
            if name == EVIDENCE[0] and session.check.case.document_type is None:
                return Answer(409, code="document_type_missing")
            check = await self._take(session.check, {name: picture}, None)
            return Answer(200, {"check_id": check.id, "attached": name, "awaiting": list(_wanted(check))})

        return await self._repeated(capture_session_token, change)

    async def _class_refused(self, session: Session, document_type: str) -> str | None:
        """The code that refuses a document class, checked in order of precedence; ``None`` if it is
        accepted."""
        if session.kind != "flow":
            return "class_select_not_supported"
        if session.check.case.evidence_attached:
            return "document_class_locked"
        if document_type not in DOCUMENT_TYPES:
            return "document_class_unavailable"
        accepted = await accepted_types(self._services, session.check)
        return None if document_type in accepted else "document_class_not_accepted"

    async def _session(self, token: str) -> Session | None:
        services = self._services
        digest = services.vault.digest(TOKEN_PURPOSE, token.encode())
        now_ms = services.clock.now_ms()
        row: Any = await fetch_row(services.pool, _SESSION, digest, to_datetime(now_ms))
        if row is None:
            return None
        found: Any = await fetch_row(services.pool, FIND_ANY, row["check_id"])
        check = check_of(found, now_ms)
        TENANT.set(check.tenant_id)
        return Session(row["kind"], to_text(to_ms(row["expires_at"])), check)

    async def _repeated(self, token: str, change: Callable[[Session], Awaitable[Answer]]) -> Answer:
        """Apply ``change`` to the current session; retry when a concurrent change wins."""
        for attempt in range(OVERTAKEN_MAX):
            session = await self._session(token)
            if session is None:
                return NO_SESSION
            try:
                return await change(session)
            except Refusal as refusal:
                if refusal.kind.slug != "kyc-check-changed" or attempt == OVERTAKEN_MAX - 1:
                    raise
        raise AssertionError("the last attempt returns or raises")

    async def _take(self, check: Check, values: dict[str, bytes], document_type: str | None) -> Check:
        step = await add_inputs(self._services, check, values, document_type)
        # Not around the evaluation or the wait for a connection: no tenant waits for another one's.
        async with transaction(self._services.pool) as connection, self._storing:
            return await write(connection, self._services, step)


def _wanted(check: Check) -> tuple[str, ...]:
    """The pictures that the page requests: the awaited ones in the flow ``full``. Other flows may await no
    pictures; then the page requests those not sent yet."""
    case = check.case
    if not case.collecting:
        return ()
    awaited = tuple(name for name in EVIDENCE if name in case.awaiting)
    if case.flow == "full":
        return awaited
    return tuple(name for name in EVIDENCE if name not in case.tokens)
