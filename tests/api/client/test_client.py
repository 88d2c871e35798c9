"""The client against the API, and its types against the models of the API description."""

from __future__ import annotations

import asyncio
import inspect
import json
import typing
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import httpx2
import pytest
from pydantic import BaseModel

from api.accounts.entries import EntryView
from api.accounts.routes import AccountView
from api.authorization_rules.conditions import ConditionView
from api.authorization_rules.inputs import RuleChangeInput, RuleInput, ScopeInput
from api.authorization_rules.report import (
    CountryFiguresView,
    DayFiguresView,
    MccFiguresView,
    RuleReportView,
    VersionFiguresView,
)
from api.authorization_rules.views import RuleView, VersionView
from api.backtests.inputs import ChangeInput, RuleBody
from api.backtests.views import BacktestView, FlipView
from api.card_products.routes import CardProductInput, CardProductView
from api.cardholders.changes import CardholderChange
from api.cardholders.routes import CardholderInput, CardholderView
from api.cards.dry_run_models import AsOfView, BindingView, DryRunInput, DryRunView, HeadroomView, LimitView
from api.cards.dry_run_models import HeadroomQuery as HeadroomQueryModel
from api.cards.inputs import CardChange, CardInput
from api.cards.views import BalanceView, CardView
from api.events.routes import EventView
from api.events.types import EventTypeView
from api.http.validation import Input
from api.kyc.inputs import Submission
from api.kyc.views import CaptureSessionView, KycCheckView
from api.links.routes import LinkView
from api.programmes.routes import NewProgrammeView, ProgrammeChange, ProgrammeInput, ProgrammeView
from api.simulations.clearings import ForcePostInput
from api.simulations.follow_ups import ChildView, LapsedView
from api.simulations.inputs import SpendInput
from api.simulations.loads import LoadView
from api.simulations.record import SimulationView
from api.simulations.spends import AcceptanceView
from api.stand_in.activity import StandInView
from api.stand_in.outages import BudgetView, OutageView
from api.stand_in.policy import PolicyInput, PolicyView, TriggersView
from api.transactions.views import TransactionView
from api.transfers.inputs import TransferInput
from api.transfers.routes import TransferView
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
    AsyncClient,
    Client,
    ConflictError,
    InvalidRequestError,
    NotFoundError,
    PermissionDeniedError,
    StanchionError,
    inputs,
    money,
    records,
)
from stanchion.operations import Operation, Resource, Rows
from stanchion.protocol import TOKEN_PATH
from tests.support.api.delegation import delegated_card
from tests.support.api.driver import Caller
from tests.support.api.stack import Installation, served

ROOT = Path(__file__).parents[3]
T = TypeVar("T")

TYPE_PAIRS: list[tuple[type[Any], type[BaseModel]]] = [
    (records.Programme, ProgrammeView),
    (records.NewProgramme, NewProgrammeView),
    (records.CardProduct, CardProductView),
    (records.Cardholder, CardholderView),
    (records.Card, CardView),
    (records.Balance, BalanceView),
    (records.Load, LoadView),
    (records.Account, AccountView),
    (records.Transfer, TransferView),
    (records.LedgerEntry, EntryView),
    (inputs.TransferFields, TransferInput),
    (records.AuthorizationRule, RuleView),
    (records.RuleVersion, VersionView),
    (records.RuleReport, RuleReportView),
    (records.RuleFiguresOfVersion, VersionFiguresView),
    (records.RuleFiguresOfDay, DayFiguresView),
    (records.RuleFiguresOfMcc, MccFiguresView),
    (records.RuleFiguresOfCountry, CountryFiguresView),
    (inputs.RuleFields, RuleInput),
    (inputs.RuleChange, RuleChangeInput),
    (records.RuleScope, ScopeInput),
    (records.RuleCondition, ConditionView),
    (records.DryRun, DryRunView),
    (records.AsOf, AsOfView),
    (records.Headroom, HeadroomView),
    (records.Binding, BindingView),
    (records.Limit, LimitView),
    (inputs.DryRunFields, DryRunInput),
    (inputs.HeadroomQuery, HeadroomQueryModel),
    (records.Acceptance, AcceptanceView),
    (records.Simulation, SimulationView),
    (records.FollowUp, ChildView),
    (records.ExpiredHold, LapsedView),
    (records.Transaction, TransactionView),
    (records.Event, EventView),
    (records.EventType, EventTypeView),
    (records.WebhookEndpoint, WebhookEndpointView),
    (records.WebhookEndpointSecret, WebhookEndpointSecretView),
    (records.Attempt, AttemptView),
    (records.Delivery, DeliveryView),
    (records.Redelivery, RedeliveryView),
    (records.Link, LinkView),
    (records.StandInPolicy, PolicyView),
    (records.Triggers, TriggersView),
    (records.StandIn, StandInView),
    (records.Outage, OutageView),
    (records.OutageBudget, BudgetView),
    (records.KycCheck, KycCheckView),
    (records.CaptureSession, CaptureSessionView),
    (records.Backtest, BacktestView),
    (records.Flip, FlipView),
    (inputs.BacktestChange, ChangeInput),
    (inputs.AddedRule, RuleBody),
    (inputs.SubmissionFields, Submission),
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


@pytest.mark.parametrize(("client_type", "api_model"), TYPE_PAIRS, ids=lambda each: each.__name__)
def test_client_types_match_the_models_of_the_api(client_type: type[Any], api_model: type[BaseModel]) -> None:
    members = typing.get_type_hints(client_type)
    assert members.keys() == {field.alias or name for name, field in api_model.model_fields.items()}
    if issubclass(api_model, Input):
        required = {name for name, field in api_model.model_fields.items() if field.is_required()}
        assert client_type.__required_keys__ == required


def declared_operations() -> list[Operation[..., Any] | Rows[..., Any]]:
    """Every operation that the client declares."""
    with Client("http://api.test", "id", "secret") as client:
        families = {type(each) for each in vars(client).values() if isinstance(each, Resource)}
    declared = [member for family in families for member in vars(family).values()]
    return [member for member in declared if isinstance(member, Operation | Rows)]


async def test_every_operation_has_a_method_with_its_parameters(running: Installation) -> None:
    described = {
        (method.upper(), path): operation
        for path, operations in running.app.openapi()["paths"].items()
        for method, operation in operations.items()
    }
    del described["POST", TOKEN_PATH]
    assert {(method.method, method.path) for method in declared_operations()} == described.keys()
    for method in declared_operations():
        parameters = described[method.method, method.path].get("parameters", [])
        keyed = any(parameter["name"] == "Idempotency-Key" for parameter in parameters)
        arguments = argument_names(method.prepare)
        assert ("idempotency_key" in arguments) is keyed, method.path
        if isinstance(method, Rows):
            query = {parameter["name"] for parameter in parameters if parameter["in"] == "query"}
            assert arguments - {"id"} == query - {"limit", "starting_after", "ids"} | {"page_size"}, (
                method.path
            )


def argument_names(ask: Callable[..., Any]) -> set[str]:
    """The names of all arguments, in the API's spelling."""
    parameters = inspect.signature(ask).parameters.values()
    names = {each.name.rstrip("_") for each in parameters if each.kind is not each.VAR_KEYWORD} - {"self"}
    hints = typing.get_type_hints(ask)
    spread = [typing.get_args(hints[each.name])[0] for each in parameters if each.kind is each.VAR_KEYWORD]
    return names.union(*(typing.get_type_hints(each) for each in spread))


async def with_client(running: Installation, caller: Caller, work: Callable[[Client], T]) -> T:
    """Run ``work`` in a thread with a client of the API, which is served over TCP; return its result."""
    credentials = caller.credentials

    def run(address: str) -> T:
        with Client(address, credentials.client_id, credentials.client_secret) as client:
            return work(client)

    async with served(running.app) as address:
        return await asyncio.to_thread(run, address)


async def test_life_of_a_card(running: Installation, acme: Caller) -> None:
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


async def test_rule_is_written_watched_in_shadow_and_activated(running: Installation, acme: Caller) -> None:
    card = await acme.funded_card()

    def live(client: Client) -> None:
        rules = client.authorization_rules
        many: records.RuleCondition = {
            "attribute": "velocity",
            "measure": "count",
            "window": "PT10M",
            "op": "gt",
            "value": 1,
        }
        scope: records.RuleScope = {"type": "card", "id": card["id"]}
        body: inputs.RuleFields = {"name": "Bursts", "scope": scope, "when": [many], "reason": "burst"}
        rule, again = (rules.create(**body, idempotency_key="rule-1") for _ in range(2))
        assert (again, rule["state"]) == (rule, "draft")
        assert rules.shadow(rule["id"])["state"] == "shadow"
        spend: inputs.SpendFields = {
            "card_id": card["id"],
            "amount": money("1.00", "EUR"),
            "mcc": "5411",
            "merchant_name": "Corner Shop",
            "channel": "pos",
        }
        for _ in range(2):
            client.simulations.wait(client.simulations.spend(**spend)["simulation_id"])
        rules.update(rule["id"], name="Purchases in ten minutes")
        assert [each["version"] for each in rules.versions(rule["id"], page_size=1)] == [2, 1]
        assert rules.activate(rule["id"])["version"] == 2
        declined = client.simulations.wait(client.simulations.spend(**spend)["simulation_id"])
        assert declined["decline_detail"] == "burst"
        begin = datetime.fromisoformat(rule["created_at"])
        report = rules.report(rule["id"], rule["created_at"], (begin + timedelta(hours=1)).isoformat())
        assert [(each["version"], each["matched"], each["in_shadow"]) for each in report["versions"]] == [
            (2, 1, 0),
            (1, 1, 1),
        ]
        assert [each["id"] for each in rules.list(scope_id=card["id"], state="active")] == [rule["id"]]
        assert rules.get(rules.retire(rule["id"])["id"])["state"] == "retired"

    await with_client(running, acme, live)


async def test_kyc_check_with_submissions_and_review(running: Installation, acme: Caller) -> None:
    holder = await acme.cardholder(await acme.programme())

    def live(client: Client) -> None:
        check = client.kyc.create(cardholder_id=holder["id"], flow_key="full")
        session = client.kyc.create_capture_session(check["id"], kind="single", document_type="passport")
        assert session["check_id"] == check["id"]
        assert client.kyc.get(check["id"])["document_type"] == "passport"
        basic = client.kyc.create(cardholder_id=holder["id"], flow_key="basic")
        person: inputs.SubmissionFields = {
            "given_name": "Ada",
            "family_name": "REVIEW",
            "date_of_birth": "1990-05-17",
            "nationality": "IE",
        }
        assert len(client.kyc.submit(basic["id"], **person)["awaiting"]) == 3
        with pytest.raises(InvalidRequestError):
            client.kyc.submit(basic["id"])
        address = client.kyc.submit(
            basic["id"],
            address_line1="12 Harbour Street",
            address_postcode="D02 XY45",
            address_country="IE",
        )
        assert address["state"] == "in_review"
        again = client.kyc.review(basic["id"], "more_input", awaiting=["family_name"])
        assert (again["state"], again["awaiting"]) == ("pending", ["family_name"])
        client.kyc.submit(basic["id"], family_name="REVIEW")
        reviewed = client.kyc.review(basic["id"], "failed", reason_codes=["name_mismatch"])
        assert (reviewed["state"], reviewed["reason_codes"]) == ("failed", ["name_mismatch"])
        assert [each["id"] for each in client.kyc.list(cardholder_id=holder["id"])] == [
            basic["id"],
            check["id"],
        ]
        assert [each["id"] for each in client.kyc.list(state="failed")] == [basic["id"]]

    await with_client(running, acme, live)


async def test_async_client_issues_spends_and_lists(running: Installation, acme: Caller) -> None:
    card = await acme.funded_card()
    http = httpx2.AsyncClient(transport=httpx2.ASGITransport(app=running.app), base_url="http://api.test")
    credentials = acme.credentials
    async with AsyncClient("", credentials.client_id, credentials.client_secret, http=http) as client:
        assert (await client.cards.batch([card["id"]]))[0] == await client.cards.get(card["id"])
        spends, decided = [], []
        for amount in ("10.00", "20.00", "30.00"):
            spend = await client.simulations.spend(
                card_id=card["id"],
                amount=money(amount, "EUR"),
                mcc="5411",
                merchant_name="Grocer",
                channel="pos",
            )
            # Simulations run in the background: the list below has the order of the decisions.
            decided.append(await client.simulations.wait(spend["simulation_id"]))
            spends.append(spend)
        assert [each["decision"] for each in decided] == ["approved"] * 3
        lapsed = await client.simulations.expire(spends[2]["simulation_id"])
        assert lapsed["authorization_id"] == decided[2]["authorization_id"]
        assert (await client.cards.balance(card["id"]))["held"] == "30.00"
        amounts = [each["approved_amount"] async for each in client.transactions.list(page_size=2)]
        assert amounts == ["30.00", "20.00", "10.00"]
        with pytest.raises(NotFoundError):
            await client.programs.get(card["id"])
        await client.card_products.retire(card["card_product_id"])
        with pytest.raises(ConflictError):
            await client.cards.create(
                card_product_id=card["card_product_id"], cardholder_id=card["cardholder_id"]
            )


async def test_webhook_endpoint_is_created_rotated_used_and_deleted(
    running: Installation, acme: Caller
) -> None:
    await acme.programme()

    def live(client: Client) -> None:
        kinds = {each["type"]: each["status"] for each in client.events.types()}
        assert (kinds["card.created"], kinds["transaction.cleared"]) == ("live", "planned")
        made = client.webhook_endpoints.create(url="https://hooks.example.com/", event_types=["*"])
        assert client.webhook_endpoints.update(made["id"], description="Ledger")["description"] == "Ledger"
        assert client.webhook_endpoints.rotate_secret(made["id"])["secret"] != made["secret"]
        assert client.webhook_endpoints.get(made["id"])["previous_secret_expires_at"] is not None
        tested = client.webhook_endpoints.test(made["id"])
        assert client.events.get(tested["event_id"])["type"] == "webhook_endpoint.tested"
        event = next(client.events.list(types=["programme.created"]))
        sent = client.events.redeliver(event["id"], endpoint_id=made["id"])
        found = list(client.webhook_endpoints.deliveries(made["id"], event_id=event["id"], state="pending"))
        assert [each["id"] for each in found] == [sent["delivery_id"]]
        assert [each["id"] for each in client.webhook_endpoints.list()] == [made["id"]]
        client.webhook_endpoints.delete(made["id"])
        assert list(client.webhook_endpoints.list()) == []

    await with_client(running, acme, live)


async def test_stand_in_policy_and_report(running: Installation, acme: Caller) -> None:
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
        outages = list(client.programs.outages(programme_id, page_size=1))
        assert [(each["ended_at"], each["budgets"][0]["used"]) for each in outages] == [(None, "10.00")]
        return list(client.programs.stip_activity(programme_id, *near, page_size=1)), policy["mode"]

    decided, mode = await with_client(running, acme, silence)
    assert [each["rule"] for each in decided] == ["max_total_exposure_exceeded", "within_ceilings"]
    assert mode == "approve_within_limits"


async def test_list_fetches_pages_until_the_end_and_only_when_needed(
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


async def test_problem_bodies_become_exceptions(running: Installation, acme: Caller) -> None:
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


def test_missing_installation_or_client_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StanchionError, match="no installation runs in that folder"):
        Client.of_installation(tmp_path / "run.json")
    (tmp_path / "run.json").write_text(json.dumps({"base_url": "http://x.test", "tenants": []}))
    with pytest.raises(StanchionError, match="has no live client with the role user"):
        Client.of_installation(tmp_path / "run.json", mode="live", role="user")
