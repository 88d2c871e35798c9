"""The event log: the events about one transaction."""

from __future__ import annotations

from tests.support.api.driver import Caller
from tests.support.api.stack import Installation


async def test_events_about_one_authorization_cover_its_whole_life(
    running: Installation, acme: Caller, tenant: str
) -> None:
    card = await acme.funded_card()
    spend, _other = [await acme.spend(card, "20.00") for _ in range(2)]
    path = f"/v1/simulated-spends/{spend['simulation_id']}"
    for follow_up, body in (
        ("increment", {"raise_by_amount": {"amount": "5.00", "currency": "EUR"}}),
        ("clear", {"amount": {"amount": "10.00", "currency": "EUR"}, "final": False}),
        ("reverse", {}),
    ):
        await acme.simulation((await acme.post(f"{path}/{follow_up}", body, 202))["simulation_id"])
    query = f"/v1/events?authorization_id={spend['authorization_id']}"
    events = (await acme.get(query))["data"]
    assert sorted(each["type"] for each in events) == [
        *["authorization.decided"] * 2,
        "ledger.hold.captured",
        "ledger.hold.created",
        "ledger.hold.released",
    ]
    assert {each["data"]["authorization_id"] for each in events} == {spend["authorization_id"]}
    of_type = (await acme.get(f"{query}&types=ledger.hold.created"))["data"]
    assert [each["type"] for each in of_type] == ["ledger.hold.created"]
    page = await acme.get(f"{query}&limit=2")
    assert page["has_more"] is True
    assert [each["id"] for each in page["data"]] == [each["id"] for each in events[:2]]
    unknown = "/v1/events?authorization_id=019aa6f0-4f2c-7cc1-9a31-5b0f6f3f2a7e"
    assert (await acme.get(unknown))["data"] == []
    assert (await acme.send("GET", "/v1/events?authorization_id=x")).status_code == 400
    stranger = await running.caller(f"{tenant}-other")
    assert (await stranger.get(query))["data"] == []
