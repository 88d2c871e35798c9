"""The client against the API itself, and its types against the models that the API is described by."""

from __future__ import annotations

import asyncio
import json
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
from pydantic import BaseModel

from api.card_products import CardProductInput, CardProductView
from api.cardholder_changes import CardholderChange
from api.cardholders import CardholderInput, CardholderView
from api.cards.inputs import CardChange, CardInput
from api.cards.views import BalanceView, CardView
from api.event_types import EventTypeView
from api.events import EventView
from api.programs import NewProgrammeView, ProgrammeChange, ProgrammeInput, ProgrammeView
from api.simulated_clearings import ForcePostInput
from api.simulated_loads import LoadView
from api.simulated_spends.follow_ups import ChildView
from api.simulated_spends.inputs import SpendInput
from api.simulated_spends.record import SimulationView
from api.simulated_spends.routes import AcceptanceView
from api.stand_in.activity import StandInView
from api.stand_in.policy import PolicyInput, PolicyView, TriggersView
from api.transaction_views import TransactionView
from api.validation import Input
from api.webhook_endpoints.deliveries import RedeliveryView
from api.webhook_endpoints.views import (
    AttemptView,
    DeliveryView,
    WebhookEndpointChange,
    WebhookEndpointInput,
    WebhookEndpointSecretView,
    WebhookEndpointView,
)
from stanchion import (
    Client,
    ConflictError,
    InvalidRequestError,
    NotDecidedError,
    NotFoundError,
    PermissionDeniedError,
    StanchionError,
    inputs,
    money,
    records,
)
from tests.api.delegation import delegated_card
from tests.api.driver import Caller
from tests.api.stack import Installation, served

ROOT = Path(__file__).parents[3]
T = TypeVar("T")

SAME: list[tuple[type[Any], type[BaseModel]]] = [
    (records.Programme, ProgrammeView),
    (records.NewProgramme, NewProgrammeView),
    (records.CardProduct, CardProductView),
    (records.Cardholder, CardholderView),
    (records.Card, CardView),
    (records.Balance, BalanceView),
    (records.Load, LoadView),
    (records.Acceptance, AcceptanceView),
    (records.Simulation, SimulationView),
    (records.Child, ChildView),
    (records.Transaction, TransactionView),
    (records.Event, EventView),
    (records.EventType, EventTypeView),
    (records.WebhookEndpoint, WebhookEndpointView),
    (records.WebhookEndpointSecret, WebhookEndpointSecretView),
    (records.Attempt, AttemptView),
    (records.Delivery, DeliveryView),
    (records.Redelivery, RedeliveryView),
    (records.StandInPolicy, PolicyView),
    (records.Triggers, TriggersView),
    (records.StandIn, StandInView),
    (inputs.StandInPolicyFields, PolicyInput),
    (inputs.ProgrammeFields, ProgrammeInput),
    (inputs.ProgrammeChange, ProgrammeChange),
    (inputs.CardProductFields, CardProductInput),
    (inputs.CardholderFields, CardholderInput),
    (inputs.CardholderChange, CardholderChange),
    (inputs.CardFields, CardInput),
    (inputs.CardChange, CardChange),
    (inputs.SpendFields, SpendInput),
    (inputs.ForcePostFields, ForcePostInput),
    (inputs.WebhookEndpointFields, WebhookEndpointInput),
    (inputs.WebhookEndpointChange, WebhookEndpointChange),
]


@pytest.mark.parametrize(("ours", "theirs"), SAME, ids=lambda each: each.__name__)
def test_the_clients_types_are_the_apis(ours: type[Any], theirs: type[BaseModel]) -> None:
    members = typing.get_type_hints(ours)
    assert members.keys() == {field.alias or name for name, field in theirs.model_fields.items()}
    if issubclass(theirs, Input):
        needed = {name for name, field in theirs.model_fields.items() if field.is_required()}
        assert ours.__required_keys__ == needed


async def with_client(running: Installation, caller: Caller, work: Callable[[Client], T]) -> T:
    """What ``work`` returns, done in a thread with a client of the API that is served over TCP."""
    credentials = caller.credentials

    def run(address: str) -> T:
        with Client(address, credentials.client_id, credentials.client_secret) as client:
            return work(client)

    async with served(running.app) as address:
        return await asyncio.to_thread(run, address)


async def test_a_cards_life(running: Installation, acme: Caller) -> None:
    def live(client: Client) -> None:
        programme = client.programs.create(name="Everyday", currency="EUR")
        assert client.programs.update(programme["id"], name="Renamed")["version"] == 2
        product = client.card_products.create(
            programme_id=programme["id"],
            name="Virtual",
            network="visa",
            currency="EUR",
            form_factor="virtual",
            iin="45600000",
        )
        holder = client.cardholders.create(
            programme_id=programme["id"], given_name="Ada", family_name="Byron", email="ada@example.com"
        )
        assert client.cardholders.update(holder["id"], external_ref="a-1")["external_ref"] == "a-1"
        card = client.cards.create(card_product_id=product["id"], cardholder_id=holder["id"])
        assert client.cards.load(card["id"], money("100.00", "EUR"))["available"] == "100.00"
        assert len(client.cards.cvv2(card["id"])) == 3
        spend = client.simulations.spend(
            card_id=card["id"],
            amount=money("40.00", "EUR"),
            mcc="5411",
            merchant_name="Grocer",
            channel="pos",
        )
        decided = client.simulations.wait(spend["simulation_id"])
        assert decided["decision"] == "approved"
        for child in (
            client.simulations.increment(decided["simulation_id"], money("5.00", "EUR")),
            client.simulations.reverse(decided["simulation_id"], money("15.00", "EUR")),
            client.simulations.clear(decided["simulation_id"]),
        ):
            assert client.simulations.wait(child["simulation_id"])["state"] == "decided"
        force = client.simulations.force_post(
            card_id=card["id"], amount=money("1.00", "EUR"), mcc="5411", merchant_name="Grocer"
        )
        client.simulations.wait(force["simulation_id"])
        assert client.cards.balance(card["id"])["posted"] == "69.00"
        assert decided["transaction_id"] is not None
        transaction = client.transactions.get(decided["transaction_id"])
        assert transaction["status"] == "cleared"
        assert client.transactions.replay(transaction["id"])["identical"]
        mine = list(client.transactions.list(card_id=card["id"], kind="purchase"))
        assert [each["id"] for each in mine] == [transaction["id"]]
        event = next(client.events.list(types=["card.created"]))
        assert client.events.get(event["id"]) == event
        assert client.cards.update(card["id"], state="suspended")["state"] == "suspended"
        assert client.card_products.retire(product["id"])["status"] == "retired"
        assert [each["id"] for each in client.card_products.list(programme_id=programme["id"])] == [
            product["id"]
        ]
        assert client.programs.get(programme["id"])["name"] == "Renamed"

    await with_client(running, acme, live)


async def test_webhook_endpoints(running: Installation, acme: Caller) -> None:
    await acme.programme()

    def live(client: Client) -> None:
        kinds = {each["type"]: each["status"] for each in client.events.types()}
        assert (kinds["card.created"], kinds["transaction.cleared"]) == ("live", "planned")
        made = client.webhook_endpoints.create(url="https://hooks.example.com/", event_types=["*"])
        assert client.webhook_endpoints.update(made["id"], description="Ledger")["description"] == "Ledger"
        assert client.webhook_endpoints.rotate_secret(made["id"])["secret"] != made["secret"]
        assert client.webhook_endpoints.get(made["id"])["previous_secret_expires_at"] is not None
        event = next(client.events.list())
        sent = client.events.redeliver(event["id"], endpoint_id=made["id"])
        found = list(client.webhook_endpoints.deliveries(made["id"], event_id=event["id"], state="pending"))
        assert [each["id"] for each in found] == [sent["delivery_id"]]
        assert [each["id"] for each in client.webhook_endpoints.list()] == [made["id"]]
        client.webhook_endpoints.delete(made["id"])
        assert list(client.webhook_endpoints.list()) == []

    await with_client(running, acme, live)


async def test_stand_in(running: Installation, acme: Caller) -> None:
    card = await delegated_card(acme, declared="100.00")
    programme_id = card["programme_id"]

    def silence(client: Client) -> tuple[list[records.StandIn], str]:
        policy = client.programs.set_stip_policy(
            programme_id,
            mode="approve_within_limits",
            max_amount="50.00",
            max_total_exposure=money("15.00", "EUR"),
        )
        assert policy == client.programs.stip_policy(programme_id)
        for _ in range(2):
            accepted = client.simulations.spend(
                card_id=card["id"],
                amount=money("10.00", "EUR"),
                mcc="5411",
                merchant_name="Grocer",
                channel="pos",
                scenario="delegated_timeout",
            )
            client.simulations.wait(accepted["simulation_id"])
        window = (f"{day}T{card['created_at'][11:]}" for day in ("2026-01-01", "2099-01-01"))
        with pytest.raises(InvalidRequestError):
            list(client.programs.stip_activity(programme_id, *window))
        near = (policy["updated_at"], policy["updated_at"].replace("Z", "-01:00"))
        return list(client.programs.stip_activity(programme_id, *near, page_size=1)), policy["mode"]

    decided, mode = await with_client(running, acme, silence)
    assert [each["rule"] for each in decided] == ["max_total_exposure_exceeded", "within_ceilings"]
    assert mode == "approve_within_limits"


async def test_pages_are_walked_to_the_end_and_only_as_far_as_wanted(
    running: Installation, acme: Caller
) -> None:
    programme = await acme.programme()
    made = [(await acme.cardholder(programme))["id"] for _ in range(5)]

    def walk(client: Client) -> None:
        rows = client.cardholders.list(programme_id=programme["id"], page_size=2)
        assert isinstance(rows, Iterator)
        assert [row["id"] for row in rows] == made[::-1]
        first = client.cardholders.get(made[0])
        assert next(client.cardholders.list(page_size=1))["id"] != first["id"]
        assert list(client.cards.list(cardholder_id=made[0])) == []
        assert client.cards.batch([made[0]]) == []

    await with_client(running, acme, walk)


async def test_problems_are_exceptions(running: Installation, acme: Caller) -> None:
    reader = await running.caller(acme.credentials.name, scopes=("programs:read",))

    def stumble(client: Client) -> None:
        with pytest.raises(NotFoundError) as missing:
            client.cards.get("019aa6f0-4f2c-7cc1-9a31-5b0f6f3f2a7e")
        assert missing.value.slug == "not-found"
        assert missing.value.request_id
        with pytest.raises(InvalidRequestError) as invalid:
            client.programs.create(name="", currency="EUR")
        assert [each.pointer for each in invalid.value.errors] == ["/name"]
        client.programs.create(name="One", currency="EUR", idempotency_key="once")
        with pytest.raises(ConflictError) as reused:
            client.programs.create(name="Two", currency="EUR", idempotency_key="once")
        assert reused.value.slug == "idempotency-key-reused"

    def overstep(client: Client) -> None:
        assert list(client.programs.list())
        with pytest.raises(PermissionDeniedError):
            client.programs.create(name="Mine", currency="EUR")

    await with_client(running, acme, stumble)
    await with_client(running, reader, overstep)


async def test_waiting_ends(running: Installation, acme: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    def wait(client: Client) -> None:
        monkeypatch.setattr(client.simulations, "get", lambda _id: {"state": "sent"})
        with pytest.raises(NotDecidedError, match="is sent after 0 s"):
            client.simulations.wait("x", seconds=0)

    await with_client(running, acme, wait)


async def test_the_readme_shows_it_as_it_is(
    running: Installation, acme: Caller, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lines of the README, run in a folder where an installation serves."""
    snippet = (ROOT / "README.md").read_text("utf-8").partition("```python\n")[2].partition("```")[0]
    assert "from stanchion import" in snippet
    card = await acme.funded_card()

    def run(client: Client) -> dict[str, Any]:
        meant = {"card_id": card["id"]}
        exec(snippet, meant)
        assert client.cards.balance(card["id"])["held"] == "42.50"
        return meant

    async with served(running.app) as address:
        credentials = acme.credentials
        tenant = {"mode": "test", "role": "admin"} | {
            name: getattr(credentials, name) for name in ("client_id", "client_secret")
        }
        (tmp_path / "var").mkdir()
        (tmp_path / "var/run.json").write_text(json.dumps({"base_url": address, "tenants": [tenant]}))
        monkeypatch.chdir(tmp_path)
        with Client.of_installation() as client:
            await asyncio.to_thread(run, client)


def test_an_installation_that_does_not_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(StanchionError, match="nothing runs in that folder"):
        Client.of_installation(tmp_path / "run.json")
    (tmp_path / "run.json").write_text(json.dumps({"base_url": "http://x.test", "tenants": []}))
    with pytest.raises(StanchionError, match="names no live client of role user"):
        Client.of_installation(tmp_path / "run.json", mode="live", role="user")
