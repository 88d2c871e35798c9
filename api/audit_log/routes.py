"""The audit log of a tenant: who administered what, when, with what effect (``api.operations.acts``)."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import asyncpg
import orjson
from fastapi import Query
from pydantic import Field, StringConstraints
from starlette.responses import Response

from api.http.fields import Id, Instant, Text100, example, shown_instant
from api.http.refusals import refusals
from api.http.validation import View
from api.operations.acts import RECORDED
from api.operations.call import ReadCall
from api.operations.pagination import WindowQuery, first_of, page, page_model
from api.operations.route import new_router
from engine.acts import OPERATOR_ACTS

router = new_router("Audit log")

ACTS: Final = tuple(sorted({*RECORDED, *OPERATOR_ACTS}))
SELECT: Final = """
    SELECT r.id::text, r.recorded_at, r.actor_kind, r.actor, r.act, r.object_kind, r.object_id, r.before,
           r.after, r.request_id,
           CASE r.actor_kind WHEN 'client' THEN (SELECT name FROM clients WHERE id = r.actor::uuid)
                             WHEN 'user' THEN (SELECT name FROM users WHERE id = r.actor::uuid)
           END AS actor_name
    FROM audit_log r
"""

ObjectId = Annotated[str, StringConstraints(min_length=1, max_length=100, pattern=r"^[!-~]+$")]


class ActorView(View):
    """Who acted."""

    kind: Literal["client", "user", "operator"]
    """`client`: through the API; `user`: in the console; `operator`: on the command line of the
    installation."""
    id: Annotated[str, example("019aa6f0-4f2c-7cc1-9a31-5b0f6f3f2a7e")]
    """The id of the client or of the user, or the operator's name as the command line knows it."""
    name: Annotated[str, example("Back office")] | None
    """The present name of the client or of the user."""


class ObjectView(View):
    """The object of an act."""

    kind: Annotated[str, example("card")]
    id: str | None


class AuditEntryView(View):
    """One administrative act."""

    id: Id
    recorded_at: Instant
    actor: ActorView
    act: Annotated[str, Field(json_schema_extra={"enum": list(ACTS)}), example("update_card")]
    """The operation, by its name in this description; `sign_in`, `sign_out` and acts of users on their own
    account are of the console."""
    object: ObjectView
    before: Annotated[dict[str, Any], example({"state": "active"})] | None
    """The members that the act changed, as they were. `null`: the object is new."""
    after: Annotated[dict[str, Any], example({"state": "suspended"})] | None
    """The same members afterwards. `null`: the object was deleted. `***` stands for personal data; secrets
    are left out."""
    request_id: str
    """The `X-Request-Id` of the request."""


class AuditLogQuery(WindowQuery):
    """Filters of the list."""

    actor: Annotated[Text100, example("019aa6f0-4f2c-7cc1-9a31-5b0f6f3f2a7e")] | None = None
    """The id of a client or of a user, or the name of an operator."""
    act: Annotated[Literal[ACTS], example("update_card")] | None = None  # type: ignore[valid-type]
    object_id: ObjectId | None = None

    @property
    def recorded(self) -> dict[str, Any]:
        """The conditions on ``recorded_at``."""
        return {name.replace("created_at", "recorded_at"): value for name, value in self.window.items()}


@router.get(
    "/v1/audit-log",
    response_model=page_model("AuditLog", AuditEntryView),
    responses=refusals("invalid-cursor"),
)
async def list_audit_log(query: Annotated[AuditLogQuery, Query()], call: ReadCall) -> Response:
    """List administrative acts, newest first.

    Every change through this API and every act of an operator on the tenant's data is an entry; reads,
    simulated traffic, refused requests and requests without effect are none. An entry is durable before its
    act is acknowledged. Entries cannot be changed, and are kept as long as the installation.
    """
    filters, scanned = first_of({"r.object_id = ?": query.object_id, "r.actor = ?": query.actor})
    return await page(
        call.services,
        call.caller,
        query,
        table="audit_log",
        select=SELECT,
        filters={**query.around_window, **filters},
        scanned={"r.act = ?": query.act, **scanned, **query.recorded},
        show=show,
    )


def show(row: asyncpg.Record) -> dict[str, Any]:
    """The public representation of a row of ``SELECT``."""
    return {
        "id": row["id"],
        "recorded_at": shown_instant(row["recorded_at"]),
        "actor": {"kind": row["actor_kind"], "id": row["actor"], "name": row["actor_name"]},
        "act": row["act"],
        "object": {"kind": row["object_kind"], "id": row["object_id"]},
        "before": _fragment(row["before"]),
        "after": _fragment(row["after"]),
        "request_id": row["request_id"],
    }


def _fragment(text: str | None) -> orjson.Fragment | None:
    return None if text is None else orjson.Fragment(text)
