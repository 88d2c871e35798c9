"""The ledger: the entries of an account, a transaction or a transfer."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from api.console.api_calls import Problem
from api.console.view import PageRoute, View
from api.console.windows import day_window

SUBJECTS: Final = (
    ("account_id", "account"),
    ("authorization_id", "transaction"),
    ("transfer_id", "transfer"),
)


async def ledger(request: Request, view: View) -> Response:
    """The entries of the object whose id is given; without one, only the form."""
    asked = request.query_params
    subject = next((name for name, _ in SUBJECTS if asked.get(name)), asked.get("subject", "account_id"))
    given = (asked.get(subject) or asked.get("id", "")).strip()
    filters = {
        "subject": subject,
        "id": given,
        **{name: asked.get(name, "") for name in ("first_day", "last_day")},
    }
    entries, pager, account, problem = None, None, None, None
    if given and subject in {name for name, _ in SUBJECTS}:
        window = day_window(view.zone, filters["first_day"], filters["last_day"])
        found = await view.listed("/v1/ledger-entries", **{subject: given}, **window)
        entries, pager, problem = found.rows, found.pager, found.problem
        answer = (
            await view.api.get(f"/v1/accounts/{given}") if subject == "account_id" and not problem else None
        )
        account = None if isinstance(answer, Problem) else answer
    return view.html(
        "transfers/ledger.html",
        problem=problem,
        entries=entries,
        pager=pager,
        account=account,
        filters=filters,
        subjects=SUBJECTS,
    )


PAGES: Final = (PageRoute("/ledger", ledger, operation="list_ledger_entries", label="Ledger", group="Money"),)
