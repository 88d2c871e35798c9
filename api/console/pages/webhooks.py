"""Webhook endpoints: their deliveries with every attempt, test events, secrets, and the payloads."""

from __future__ import annotations

from typing import Any, Final

import orjson
from starlette.requests import Request
from starlette.responses import Response

from api.console.api_calls import Answer, Problem
from api.console.view import PageRoute, View
from engine.limits import PAGE_LIMIT_MAX

STATES: Final = ("pending", "delivered", "failed")


def shown_json(value: Any) -> str:
    """JSON for people."""
    return orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()


def path_of(id_: str) -> str:
    """The API path of an endpoint."""
    return f"/v1/webhook-endpoints/{id_}"


async def endpoints(_request: Request, view: View) -> Response:
    """All endpoints; a tenant has at most 16 in each mode."""
    found = await view.api.require("/v1/webhook-endpoints", limit=PAGE_LIMIT_MAX)
    return view.html("webhooks/list.html", endpoints=found["data"])


async def endpoint(request: Request, view: View) -> Response:
    """One endpoint with a page of its deliveries."""
    return await _show(view, request.path_params["id"])


async def _show(
    view: View, id_: str, *, problem: Problem | None = None, secret: str | None = None
) -> Response:
    """The page of an endpoint: with the ``problem`` of an act that was refused, or with the ``secret`` that
    an act has created."""
    found = await view.api.require(path_of(id_))
    state = view.request.query_params.get("state", "")
    deliveries: dict[str, Any] | None = None
    pager = None
    if view.may("list_webhook_deliveries"):
        deliveries, pager = await view.paged(
            f"{path_of(id_)}/deliveries", state=state if state in STATES else None
        )
    return view.html(
        "webhooks/endpoint.html",
        endpoint=found,
        deliveries=None if deliveries is None else deliveries["data"],
        pager=pager,
        state=state,
        states=STATES,
        problem=problem,
        secret=secret,
    )


async def test(request: Request, view: View) -> Response:
    """Send a test event."""
    id_ = request.path_params["id"]
    answer = await view.api.post(f"{path_of(id_)}/test")
    if isinstance(answer, Problem):
        return await _show(view, id_, problem=answer)
    return view.redirect(
        f"/webhooks/{id_}/events/{answer['event_id']}", notice="The test event is on its way."
    )


async def rotate(request: Request, view: View) -> Response:
    """Create a new signing secret, and show it once."""
    id_ = request.path_params["id"]
    answer = await view.api.post(f"{path_of(id_)}/rotate-secret")
    if isinstance(answer, Problem):
        return await _show(view, id_, problem=answer)
    return await _show(view, id_, secret=answer["secret"])


async def enable(request: Request, view: View) -> Response:
    """Deliver again."""
    return await _change_status(request, view, "enabled")


async def disable(request: Request, view: View) -> Response:
    """Stop delivering."""
    return await _change_status(request, view, "disabled")


async def _change_status(request: Request, view: View, status: str) -> Response:
    id_ = request.path_params["id"]
    answer = await view.api.patch(path_of(id_), {"status": status})
    if isinstance(answer, Problem):
        return await _show(view, id_, problem=answer)
    return view.redirect(f"/webhooks/{id_}", notice=f"The endpoint is {status}.")


async def delete(request: Request, view: View) -> Response:
    """Delete an endpoint."""
    id_ = request.path_params["id"]
    answer = await view.api.delete(path_of(id_))
    if isinstance(answer, Problem):
        return await _show(view, id_, problem=answer)
    return view.redirect("/webhooks", notice="The endpoint is deleted.")


# --- one event at one endpoint ----------------------------------------------------------------------------


async def delivered_event(request: Request, view: View) -> Response:
    """The deliveries of one event to one endpoint, with every attempt and the payload."""
    return await _show_event(view, request.path_params["id"], request.path_params["event"])


async def resend(request: Request, view: View) -> Response:
    """Send the event once more."""
    id_, event_id = request.path_params["id"], request.path_params["event"]
    answer = await view.api.post(f"/v1/events/{event_id}/redeliver", {"endpoint_id": id_})
    if isinstance(answer, Problem):
        return await _show_event(view, id_, event_id, problem=answer)
    return view.redirect(f"/webhooks/{id_}/events/{event_id}", notice="The event is sent again.")


async def _show_event(view: View, id_: str, event_id: str, *, problem: Problem | None = None) -> Response:
    found = await view.api.require(path_of(id_))
    deliveries = await view.api.require(f"{path_of(id_)}/deliveries", event_id=event_id, limit=PAGE_LIMIT_MAX)
    event: Answer | None = None
    if view.may("get_event"):
        event = await view.api.get(f"/v1/events/{event_id}")
    if isinstance(event, Problem):
        # The list refuses a malformed id; an unknown one has neither deliveries nor an event.
        if not deliveries["data"]:
            return view.problem(event)
        event = None
    return view.html(
        "webhooks/event.html",
        endpoint=found,
        event_id=event_id,
        event=event,
        payload=shown_json(event),
        deliveries=deliveries["data"],
        problem=problem,
    )


PAGES: Final = (
    PageRoute(
        "/webhooks", endpoints, operation="list_webhook_endpoints", label="Webhooks", group="Developers"
    ),
    PageRoute("/webhooks/{id}", endpoint, operation="get_webhook_endpoint"),
    PageRoute("/webhooks/{id}/test", test, "POST", operation="send_test_event"),
    PageRoute("/webhooks/{id}/rotate-secret", rotate, "POST", operation="rotate_webhook_secret"),
    PageRoute("/webhooks/{id}/enable", enable, "POST", operation="update_webhook_endpoint"),
    PageRoute("/webhooks/{id}/disable", disable, "POST", operation="update_webhook_endpoint"),
    PageRoute("/webhooks/{id}/delete", delete, "POST", operation="delete_webhook_endpoint"),
    PageRoute("/webhooks/{id}/events/{event}", delivered_event, operation="list_webhook_deliveries"),
    PageRoute("/webhooks/{id}/events/{event}/resend", resend, "POST", operation="redeliver_event"),
)
