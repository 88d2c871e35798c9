"""Uses every published operation of the API, in a plausible order. The reference shows the last use of each
operation, so side paths come first."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta
from typing import Final, TypeVar
from zoneinfo import ZoneInfo

from stanchion import Client, Money, StanchionError, money
from stanchion.inputs import BacktestChange, SpendFields, SubmissionFields
from stanchion.records import (
    BacktestScope,
    Card,
    Cardholder,
    CardProduct,
    Delivery,
    Programme,
    RuleCondition,
)

ARRIVAL_SECONDS_MAX: Final = 20.0
POLL_SECONDS: Final = 0.05
PAGE: Final = 2
"""Rows of a page: enough to show the form of a list."""
HOOK_PATH: Final = "/stanchion"
DECISION_PATH: Final = "/authorize"
PERSON: Final[SubmissionFields] = {
    "given_name": "Ada",
    "family_name": "Byron",
    "date_of_birth": "1990-05-17",
    "nationality": "IE",
    "address_line1": "12 Harbour Street",
    "address_postcode": "D02 XY45",
    "address_country": "IE",
}
NEEDS_REVIEW: Final[SubmissionFields] = {**PERSON, "family_name": "REVIEW"}

T = TypeVar("T")


def eur(amount: str) -> Money:
    """A Money object in euros."""
    return money(amount, "EUR")


def walk(api: Client, receiver: str) -> None:
    """Use every operation at least once. Raises StanchionError. ``receiver``: an HTTPS address that answers
    200 to every request at HOOK_PATH."""
    _stand_in(api, receiver)
    programme = _programme(api)
    product = _product(api, programme)
    holder = _cardholder(api, programme)
    _identity(api, holder)
    card = _card(api, product, holder)
    _rules(api, programme, card)
    endpoint_id = _endpoint(api, receiver)
    _side_paths(api, card)
    _sale(api, card)
    _books(api, programme)
    _money(api, card)
    _events(api, endpoint_id)
    _endpoint_ends(api, endpoint_id)
    _clients(api, card)
    _users(api)
    _links(api)


def _stand_in(api: Client, receiver: str) -> None:
    """A programme whose endpoint fails, and a card that is replaced."""
    programme = api.programs.create(
        name="Own decisions",
        currency="EUR",
        decisioning="delegated",
        decision_url=receiver + DECISION_PATH,
        decision_timeout_ms=200,
    )
    api.programs.set_stip_policy(
        programme["id"],
        mode="approve_within_limits",
        max_amount="50.00",
        max_total_exposure=eur("10000.00"),
        mcc_list=["7995", "6051"],
        mcc_list_mode="deny",
    )
    api.programs.stip_policy(programme["id"])
    product = _product(api, programme)
    card = api.cards.create(card_product_id=product["id"], cardholder_id=_cardholder(api, programme)["id"])
    api.cards.load(card["id"], eur("100.00"))
    api.cardholders.delete(_cardholder(api, programme)["id"])
    declared = {"balance": eur("200.00")}
    api.request("PUT", f"/v1/cards/{card['id']}/declared-balance", body=declared)
    for amount in ("60.00", "20.00"):
        spend = _spend(card, amount)
        spend["scenario"] = "delegated_timeout"
        api.simulations.wait(api.simulations.spend(**spend)["simulation_id"])
    begin = programme["created_at"]
    end = (datetime.fromisoformat(begin) + timedelta(hours=1)).isoformat(timespec="milliseconds")
    window = begin, end.replace("+00:00", "Z")
    _first(api.programs.stip_activity(programme["id"], *window, page_size=PAGE))
    _first(api.programs.outages(programme["id"], page_size=PAGE))
    api.cards.replace(card["id"], reason="damaged")
    api.card_products.retire(product["id"])


def _programme(api: Client) -> Programme:
    programme = api.programs.create(name="Everyday cards", currency="EUR", timezone="Europe/Dublin")
    _first(api.programs.list(page_size=PAGE))
    api.programs.update(programme["id"], hold_expiry_days=10)
    return api.programs.get(programme["id"])


def _product(api: Client, programme: Programme) -> CardProduct:
    product = api.card_products.create(
        programme_id=programme["id"],
        name="Everyday virtual",
        network="visa",
        currency="EUR",
        form_factor="virtual",
        iin="45600000",
        control_defaults=[
            {"kind": "mcc_deny", "values": ["7995"]},
            {"kind": "per_txn_cap", "amount": "250.00"},
        ],
    )
    _first(api.card_products.list(programme_id=programme["id"], page_size=PAGE))
    api.card_products.update(product["id"], external_ref="virtual-2026")
    return api.card_products.get(product["id"])


def _cardholder(api: Client, programme: Programme) -> Cardholder:
    holder = api.cardholders.create(
        programme_id=programme["id"],
        given_name="Ada",
        family_name="Byron",
        email="ada@example.com",
        date_of_birth="1990-05-17",
        address={
            "line1": "12 Harbour Street",
            "line2": None,
            "city": "Dublin",
            "postcode": "D02 XY45",
            "country": "IE",
        },
        external_ref="customer-4711",
    )
    api.cardholders.update(holder["id"], phone="+353861234567")
    _first(api.cardholders.list(programme_id=programme["id"], page_size=PAGE))
    return api.cardholders.get(holder["id"])


def _identity(api: Client, holder: Cardholder) -> None:
    in_review = api.kyc.create(cardholder_id=holder["id"], flow_key="basic")
    api.kyc.submit(in_review["id"], **NEEDS_REVIEW)
    api.kyc.review(in_review["id"], "passed")
    check = api.kyc.create(cardholder_id=holder["id"], flow_key="full")
    api.kyc.submit(check["id"], **PERSON)
    api.kyc.create_capture_session(check["id"], kind="flow")
    _first(api.kyc.list(cardholder_id=holder["id"], page_size=PAGE))
    api.kyc.get(check["id"])


def _card(api: Client, product: CardProduct, holder: Cardholder) -> Card:
    card = api.cards.create(
        card_product_id=product["id"],
        cardholder_id=holder["id"],
        external_ref="card-4711-1",
        metadata={"cost_centre": "4711"},
    )
    api.cards.load(card["id"], eur("100.00"))
    api.cards.cvv2(card["id"])
    api.cards.reveal(card["id"], parent_origins=["https://app.example.com"])
    api.cards.update(
        card["id"], controls=[*product["control_defaults"], {"kind": "per_day_cap", "count": 10}]
    )
    _first(api.cards.list(cardholder_id=holder["id"], page_size=PAGE))
    return api.cards.get(card["id"])


def _rules(api: Client, programme: Programme, card: Card) -> None:
    """A rule that is watched in shadow, changed and activated, and one that is retired."""
    unused = api.authorization_rules.create(
        name="No purchases at night",
        scope={"type": "card", "id": card["id"]},
        when=[{"attribute": "local_time", "op": "between", "value": ["23:00", "05:00"]}],
        reason="night",
    )
    api.authorization_rules.retire(unused["id"])
    burst: RuleCondition = {
        "attribute": "velocity",
        "measure": "count",
        "window": "PT10M",
        "where": [{"attribute": "channel", "op": "eq", "value": "ecommerce"}],
        "op": "gt",
        "value": 3,
    }
    rule = api.authorization_rules.create(
        name="Many small purchases online",
        scope={"type": "programme", "id": programme["id"]},
        when=[{"attribute": "amount", "op": "lt", "value": "5.00"}, burst],
        reason="card_testing",
    )
    api.authorization_rules.shadow(rule["id"])
    for _ in range(4):
        spend: SpendFields = {
            **_spend(card, "1.00"),
            "channel": "ecommerce",
            "merchant_id": "BAKERY-7",
        }
        del spend["entry_mode"]
        api.simulations.wait(api.simulations.spend(**spend)["simulation_id"])
    begin = datetime.fromisoformat(rule["created_at"])
    end = (begin + timedelta(days=1)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    api.authorization_rules.report(rule["id"], rule["created_at"], end)
    api.authorization_rules.update(rule["id"], when=[burst | {"value": 5}])
    api.authorization_rules.activate(rule["id"])
    _first(api.authorization_rules.list(scope_id=programme["id"], page_size=PAGE))
    _first(api.authorization_rules.versions(rule["id"], page_size=PAGE))
    api.authorization_rules.get(rule["id"])


def _endpoint(api: Client, receiver: str) -> str:
    _first(api.events.types())
    endpoint = api.webhook_endpoints.create(
        url=receiver + HOOK_PATH,
        event_types=["authorization.decided", "ledger.hold.captured"],
        description="Ledger of the back office",
    )
    api.webhook_endpoints.get(endpoint["id"])
    _first(api.webhook_endpoints.list(page_size=PAGE))
    return endpoint["id"]


def _side_paths(api: Client, card: Card) -> None:
    """The other outcomes of a sale besides clearing."""
    lapsing = api.simulations.spend(**_spend(card, "5.00"))["simulation_id"]
    api.simulations.wait(lapsing)
    api.simulations.expire(lapsing)
    forced = api.simulations.force_post(
        card_id=card["id"], amount=eur("3.50"), mcc="4111", merchant_name="City Metro"
    )
    api.simulations.wait(forced["simulation_id"])


def _sale(api: Client, card: Card) -> None:
    spend = _spend(card, "42.50")
    api.cards.headroom(card["id"], mcc=spend["mcc"], channel=spend["channel"], entry_mode="contactless")
    api.cards.evaluate(
        card["id"], amount=eur("250.01"), mcc="5462", merchant_name="Corner Bakery", channel="pos"
    )
    sale = api.simulations.spend(**spend)["simulation_id"]
    api.simulations.wait(sale)
    api.simulations.wait(api.simulations.increment(sale, eur("10.00"))["simulation_id"])
    api.simulations.wait(api.simulations.reverse(sale, eur("2.50"))["simulation_id"])
    api.cards.balance(card["id"])
    api.simulations.wait(api.simulations.clear(sale, eur("50.00"))["simulation_id"])
    transaction_id = api.simulations.get(sale)["transaction_id"]
    if transaction_id is None:
        raise StanchionError("a decided sale names no transaction")
    _first(api.transactions.list(card_id=card["id"], page_size=PAGE))
    _first(api.simulations.list(card_id=card["id"], operation="spend", page_size=1))
    api.transactions.update(transaction_id, metadata={"invoice": "2026-1187"})
    api.transactions.replay(transaction_id)
    api.transactions.get(transaction_id)


def _books(api: Client, programme: Programme) -> None:
    begin = datetime.fromisoformat(programme["created_at"])
    day = begin.astimezone(ZoneInfo(programme["timezone"])).strftime("%Y-%m-%d")
    api.settlement_reports.get(programme["id"], day)
    window = (begin, begin + timedelta(days=1))
    begin_text, end_text = (at.isoformat(timespec="milliseconds").replace("+00:00", "Z") for at in window)
    _backtest(api, programme, begin_text, end_text)
    export = api.exports.create("transactions", begin_text, end_text)
    _first(api.exports.list(page_size=PAGE))
    api.exports.wait(export["id"])


def _backtest(api: Client, programme: Programme, begin: str, end: str) -> None:
    """A lower cap and a new rule on all cards of the programme, and a back-test that is not wanted any
    more."""
    scope: BacktestScope = {"type": "programme", "id": programme["id"]}
    change: BacktestChange = {
        "controls": {"remove": ["per_txn_cap"], "add": [{"kind": "per_txn_cap", "amount": "10.00"}]},
        "add_rules": [
            {
                "name": "No gambling",
                "when": [{"attribute": "mcc", "op": "in", "value": ["7995", "7800-7802"]}],
                "reason": "no_gambling",
            }
        ],
    }
    api.backtests.cancel(api.backtests.create(begin, end, scope=scope, change=change)["id"])
    backtest = api.backtests.create(begin, end, scope=scope, change=change)
    api.backtests.wait(backtest["id"])
    _first(api.backtests.list(page_size=PAGE))
    _first(api.backtests.flips(backtest["id"], page_size=PAGE))
    api.backtests.flips_csv(backtest["id"])


def _users(api: Client) -> None:
    made = api.users.create(email="ada@example.com", name="Ada Lovelace", role="admin")
    _first(api.users.list(page_size=PAGE))
    api.users.update(made["id"], role="user")
    api.users.invite(made["id"])
    api.users.reset_totp(made["id"])
    api.users.end_sessions(made["id"])
    api.users.disable(made["id"])
    api.users.enable(made["id"])
    api.users.get(made["id"])


def _clients(api: Client, card: Card) -> None:
    api.clients.create(role="user", name="Shop", scopes=["cards:read"])
    made = api.clients.create(role="admin", name="Back office", scopes=["cards:read", "cards:write"])
    _first(api.clients.list(status="active", page_size=PAGE))
    api.clients.rotate_secret(made["id"], overlap_hours=24)
    api.clients.get(made["id"])
    api.clients.revoke(made["id"])
    _first(api.audit_log.list(object_id=card["id"], act="update_card", page_size=PAGE))


def _money(api: Client, card: Card) -> None:
    """A payment to the card's account, and a fee that was a mistake."""
    account_id = card["funding_account_id"]
    if account_id is None:
        raise StanchionError("the card has no account")
    fee = api.transfers.create(account_id=account_id, direction="debit", amount=eur("2.00"), kind="fee")
    api.transfers.reverse(fee["id"])
    paid = api.transfers.create(
        account_id=account_id,
        direction="credit",
        amount=eur("250.00"),
        kind="load",
        external_ref="payment-2026-118",
        description="Salary for November",
        metadata={"payroll_run": "2026-11"},
    )
    api.transfers.get(paid["id"])
    _first(api.transfers.list(account_id=account_id, page_size=PAGE))
    _first(api.ledger_entries.list(account_id=account_id, page_size=PAGE))
    _first(api.accounts.list(programme_id=card["programme_id"], page_size=PAGE))
    api.accounts.get(account_id)


def _spend(card: Card, amount: str) -> SpendFields:
    return {
        "card_id": card["id"],
        "amount": eur(amount),
        "mcc": "5462",
        "merchant_name": "Corner Bakery",
        "channel": "pos",
        "entry_mode": "contactless",
    }


def _events(api: Client, endpoint_id: str) -> None:
    captured = _first(api.events.list(types=["ledger.hold.captured"], page_size=1))
    # Only a finished delivery shows all members.
    _wait_for(
        lambda: api.webhook_endpoints.deliveries(endpoint_id, event_id=captured["id"], state="delivered")
    )
    _first(api.events.list(types=["authorization.decided"], page_size=PAGE))
    api.events.get(captured["id"])
    api.events.redeliver(captured["id"], endpoint_id=endpoint_id)


def _endpoint_ends(api: Client, endpoint_id: str) -> None:
    api.webhook_endpoints.update(endpoint_id, event_types=["*"])
    api.webhook_endpoints.test(endpoint_id)
    api.webhook_endpoints.rotate_secret(endpoint_id)
    api.webhook_endpoints.delete(endpoint_id)


def _links(api: Client) -> None:
    """Edges report their links every few seconds, at first when they have started."""
    deadline = time.monotonic() + ARRIVAL_SECONDS_MAX
    while not api.links.list():
        if time.monotonic() > deadline:
            raise StanchionError("no edge has reported its links")
        time.sleep(POLL_SECONDS)


def _first(rows: Iterable[T]) -> T:
    """The first row of a list; the list's page is the example."""
    for row in rows:
        return row
    raise StanchionError("a list is empty that should not be")


def _wait_for(ask: Callable[[], Iterator[Delivery]]) -> None:
    """Return once ``ask`` finds a delivery."""
    deadline = time.monotonic() + ARRIVAL_SECONDS_MAX
    while next(ask(), None) is None:
        if time.monotonic() > deadline:
            raise StanchionError("nothing has been delivered")
        time.sleep(POLL_SECONDS)
