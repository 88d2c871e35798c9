"""Links over the API: what edges report, for the mode of the caller and while it is fresh."""

from __future__ import annotations

from typing import Any

import msgspec

from actors.network.link_reports import link_reporter
from actors.network.links.status import LinkStatus
from engine.limits import LINK_REPORT_FRESH_SECONDS
from tests.support.actors.outbox.waiting import eventually
from tests.support.api.driver import Caller
from tests.support.api.stack import Installation

OTHER = LinkStatus(
    name="processor",
    direction="connect",
    mode="live",
    address="192.0.2.7:8600",
    tls=True,
    state="down",
    connections=1,
    connections_wanted=2,
    signed_on=0,
    sign_on="required",
    in_flight=3,
    per_minute={"0110 51": 2},
    answers={"0110 51": 9},
    refused={"iin": 4},
    bytes_received=1_000,
    last_error="connection_refused",
    last_error_ms=1_795_256_130_123,
)


async def reported(running: Installation, edge: str, *statuses: LinkStatus) -> None:
    """Report ``statuses`` as ``edge`` does."""

    async def run(statement: str, *arguments: Any) -> list[Any]:
        assert statement == "report_links"
        name, *lists = arguments
        for link, live, text in zip(*lists, strict=True):
            await running.services.pool.execute(
                "INSERT INTO link_reports (edge, name, live, status) VALUES ($1, $2, $3, $4::jsonb)",
                name,
                link,
                live,
                text,
            )
        return []

    await link_reporter(edge, lambda: statuses, run)._step()


async def test_edges_report_their_links_to_the_api(acme: Caller) -> None:
    (link,) = await eventually(lambda: _links(acme))
    assert {name: link[name] for name in ("name", "edge", "mode", "direction", "tls", "state")} == {
        "name": "default",
        "edge": "edge",
        "mode": "test",
        "direction": "listen",
        "tls": False,
        "state": "up",
    }
    assert link["connections_wanted"] is None
    assert (link["last_error"], link["last_error_at"]) == (None, None)
    # Tenants do not see the installation's addresses.
    assert "address" not in link


async def _links(caller: Caller) -> Any:
    return (await caller.get("/v1/links"))["data"]


async def test_links_of_the_other_mode_and_of_ended_edges_are_not_listed(
    running: Installation, acme: Caller
) -> None:
    live = await running.caller(acme.credentials.name, mode="live")
    await reported(running, "edge-7", OTHER)
    await reported(running, "edge-8", msgspec.structs.replace(OTHER, name="ended"))
    pool = running.services.pool
    await pool.execute(
        f"UPDATE link_reports SET reported_at = now() - interval '{LINK_REPORT_FRESH_SECONDS + 1} seconds'"
        " WHERE edge = 'edge-8'"
    )
    (link,) = (await live.get("/v1/links"))["data"]
    assert link == {
        "name": "processor",
        "edge": "edge-7",
        "mode": "live",
        "direction": "connect",
        "tls": True,
        "state": "down",
        "connections": 1,
        "connections_wanted": 2,
        "signed_on": 0,
        "sign_on": "required",
        "in_flight": 3,
        "answers_per_minute": {"0110 51": 2},
        "refused": {"iin": 4},
        "last_error": "connection_refused",
        "last_error_at": "2026-11-21T10:15:30.123Z",
        "reported_at": link["reported_at"],
    }
    assert {each["mode"] for each in (await acme.get("/v1/links"))["data"]} <= {"test"}
    await pool.execute("DELETE FROM link_reports WHERE edge LIKE 'edge-%'")


async def test_links_need_the_role_admin(running: Installation, tenant: str) -> None:
    user = await running.caller(tenant, role="user", scopes=("links:read",))
    response = await user.send("GET", "/v1/links")
    assert (response.status_code, response.json()["type"]) == (403, "/problems/role-not-allowed")
