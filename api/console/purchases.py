"""Forms that describe a purchase: dry runs and simulated spends take the same members."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, get_args

from api.simulations.inputs import EntryMode
from engine.simulation import Scenario

TEXTS: Final = ("mcc", "merchant_name", "merchant_country", "merchant_id", "channel", "entry_mode")
OF_DRY_RUNS: Final = ("cvv2_result", "authentication_result")
DEFAULTS: Final = {"mcc": "5411", "merchant_name": "Corner Shop", "channel": "pos", "kind": "purchase"}
CHOICES: Final = {
    "channel": ("pos", "ecommerce", "atm", "moto"),
    "entry_mode": get_args(EntryMode),
    "kind": ("purchase", "refund"),
    # The others need values that only a terminal has.
    "scenario": tuple(each for each in get_args(Scenario) if not each.endswith("_presented")),
    "cvv2_result": ("match", "mismatch"),
    "authentication_result": ("present", "valid", "invalid"),
}


def purchase_of(given: Mapping[str, str], currency: str) -> dict[str, Any]:
    """The body of a simulated spend, in the currency of its card. Empty fields are left out, so that the API
    names those that it needs."""
    texts = {name: value.strip() for name, value in given.items() if value.strip()}
    body: dict[str, Any] = {name: texts[name] for name in TEXTS if name in texts}
    body["amount"] = {"amount": texts.get("amount", ""), "currency": currency}
    if "merchant_amount" in texts:
        body["merchant_amount"] = {
            "amount": texts["merchant_amount"],
            "currency": texts.get("merchant_currency", ""),
        }
    body["kind"] = texts.get("kind", "purchase")
    if "mit" in texts:
        body["mit"] = True
    return body


def spend_of(given: Mapping[str, str], card: Mapping[str, Any]) -> dict[str, Any]:
    """The body of a simulated spend for ``card``."""
    scenario = given.get("scenario")
    body = {"card_id": card["id"], **purchase_of(given, card["currency"])}
    return body | ({"scenario": scenario} if scenario else {})


def dry_run_of(given: Mapping[str, str], currency: str) -> dict[str, Any]:
    """The body of a dry run."""
    stated = {name: given[name] for name in OF_DRY_RUNS if given.get(name)}
    return purchase_of(given, currency) | stated | ({"stand_in": True} if given.get("stand_in") else {})


def fields_of(transaction: Mapping[str, Any]) -> dict[str, str]:
    """The fields that describe the purchase of a transaction again."""
    merchant, charged = transaction["merchant"], transaction["merchant_amount"]
    fields = {
        "amount": transaction["requested_amount"],
        "mcc": transaction["mcc"],
        "merchant_name": merchant["name"],
        "merchant_country": merchant["country"],
        "merchant_id": merchant["id"] or "",
        "channel": transaction["channel"] or "",
        "kind": "refund" if transaction["kind"] == "refund" else "purchase",
    }
    if transaction["entry_mode"] in CHOICES["entry_mode"]:
        fields["entry_mode"] = transaction["entry_mode"]
    if charged["currency"] != transaction["currency"]:
        fields |= {"merchant_amount": charged["amount"], "merchant_currency": charged["currency"]}
    return fields
