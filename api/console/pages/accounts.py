"""Accounts: their list, and the page of one account with its balance and its ledger entries."""

from __future__ import annotations

from typing import Any, Final, get_args

from starlette.requests import Request
from starlette.responses import Response

from api.accounts.routes import AccountKind
from api.console.lookups import one, programmes_of
from api.console.view import PageRoute, View


async def accounts(_request: Request, view: View) -> Response:
    """The list with its filters."""
    given = view.request.query_params
    query: dict[str, Any] = {name: given.get(name, "").strip() or None for name in ("programme_id", "kind")}
    found, pager = await view.paged("/v1/accounts", **query)
    programmes = await programmes_of(view)
    return view.html(
        "accounts/list.html",
        rows=found["data"],
        pager=pager,
        query=query,
        kinds=get_args(AccountKind),
        programmes=programmes,
        names={each["id"]: each["name"] for each in programmes},
    )


async def account(request: Request, view: View) -> Response:
    """One account."""
    found = await view.api.require(f"/v1/accounts/{request.path_params['id']}")
    entries, pager = await view.paged("/v1/ledger-entries", account_id=found["id"])
    return view.html(
        "accounts/page.html",
        account=found,
        programme=await one(view, "get_program", f"/v1/programs/{found['programme_id']}"),
        entries=entries["data"],
        pager=pager,
    )


PAGES: Final = (
    PageRoute("/accounts", accounts, operation="list_accounts", label="Accounts", group="Cards"),
    PageRoute("/accounts/{id}", account, operation="get_account"),
)
