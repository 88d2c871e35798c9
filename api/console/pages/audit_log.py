"""The audit log: who administered what, when, with what effect."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import orjson
from starlette.requests import Request
from starlette.responses import Response

from api.audit_log.routes import ACTS
from api.console.time_window import window_of
from api.console.view import PageRoute, View

PAGE_OF: Final = {
    "account": "/accounts",
    "authorization_rule": "/rules",
    "backtest": "/backtests",
    "card": "/cards",
    "card_product": "/card-products",
    "cardholder": "/cardholders",
    "client": "/clients",
    "event": "/events",
    "export": "/exports",
    "kyc_check": "/kyc",
    "programme": "/programmes",
    "transaction": "/transactions",
    "transfer": "/transfers",
    "user": "/users",
    "webhook_endpoint": "/webhooks",
}
"""The console's pages by kind of object."""


class MemberChange(NamedTuple):
    """One member that an act changed, as text; empty where the object did not exist."""

    name: str
    before: str
    after: str


async def audit_log(request: Request, view: View) -> Response:
    """Acts, newest first, filtered by act, actor, object and time."""
    given, window = request.query_params, window_of(view)
    act = given.get("act", "")
    found, pager = await view.paged(
        "/v1/audit-log",
        act=act if act in ACTS else None,
        actor=given.get("actor", "").strip(),
        object_id=given.get("object_id", "").strip(),
        **window.query,
    )
    return view.html(
        "audit/list.html",
        entries=[each | {"changes": _changes(each), "page": _page(each)} for each in found["data"]],
        pager=pager,
        acts=ACTS,
        act=act,
        actor=given.get("actor", ""),
        object_id=given.get("object_id", ""),
        window=window,
    )


def _page(entry: dict[str, Any]) -> str | None:
    """The console's page of the entry's object, if there is one."""
    kind, id_ = entry["object"]["kind"], entry["object"]["id"]
    # An object that was deleted has no page.
    return f"{PAGE_OF[kind]}/{id_}" if id_ and kind in PAGE_OF and entry["after"] is not None else None


def _changes(entry: dict[str, Any]) -> list[MemberChange]:
    before, after = entry["before"] or {}, entry["after"] or {}
    return [
        MemberChange(name, _text(before, name), _text(after, name))
        for name in sorted(before.keys() | after.keys())
    ]


def _text(members: dict[str, Any], name: str) -> str:
    if name not in members:
        return ""
    value = members[name]
    return value if isinstance(value, str) else orjson.dumps(value).decode()


PAGES: Final = (
    PageRoute("/audit-log", audit_log, operation="list_audit_log", label="Audit log", group="Administration"),
)
