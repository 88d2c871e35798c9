"""Every combination of the filters of a list, with values that are frequent, rare, or absent."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, product
from typing import Final

from loadtests.generators.history import FREQUENT_MCC, FREQUENT_REASON, RARE_MCC, RARE_REASON, Life
from stanchion import Client

Query = dict[str, str]

EACH_VALUE_UP_TO: Final = 2
"""Combinations of so many filters are made with each of their values; larger ones with ``DRAWN``
draws."""
DRAWN: Final = 1
DAY: Final = {"from": "2026-01-02T00:00:00Z", "to": "2026-01-03T00:00:00Z"}
EMPTY: Final = {"from": "2025-01-01T00:00:00Z", "to": "2025-01-02T00:00:00Z"}


def transaction_filters(client: Client, life: Life) -> dict[str, list[Query]]:
    """The filters of ``GET /v1/transactions`` with their values. A window counts as one filter."""
    frequent, rare = client.cards.get(life.cards[0]), client.cards.get(life.rare_card)
    return {
        "card_id": _each("card_id", frequent["id"], rare["id"]),
        "cardholder_id": _each("cardholder_id", frequent["cardholder_id"], rare["cardholder_id"]),
        "programme_id": _each("programme_id", frequent["programme_id"], rare["programme_id"]),
        "status": _each("status", "cleared", "declined", "reversed", "lapsed"),
        "kind": _each("kind", "purchase", "refund"),
        "decision": _each("decision", "approved", "declined"),
        "decline_reason": _each("decline_reason", FREQUENT_REASON, RARE_REASON),
        "mcc": _each("mcc", FREQUENT_MCC, RARE_MCC),
        "rrn": _each("rrn", "000000012345", "none"),
        "network_txn_id": _each("network_txn_id", "none"),
        "merchant": _each("merchant", "shop", "absent"),
        "amount": _each("amount", "1.00", "77.00"),
        "window": [DAY, {"from": DAY["from"]}, {"to": DAY["to"]}, EMPTY],
    }


def entry_filters(client: Client, life: Life) -> dict[str, list[Query]]:
    """Those of ``GET /v1/ledger-entries``, of which at least one id is given."""
    card = client.cards.get(life.cards[0])
    own = [each for each in client.accounts.list() if each["programme_id"] == card["programme_id"]]
    ids = {each["kind"]: each["id"] for each in own} | {"card": card["funding_account_id"] or ""}
    [load] = [each["id"] for each in client.transfers.list()]
    return {
        "account_id": _each("account_id", *ids.values()),
        "authorization_id": _each("authorization_id", life.approved),
        "transfer_id": _each("transfer_id", load),
        "window": [DAY, {"from": DAY["from"]}, {"to": DAY["to"]}, EMPTY],
    }


def queries(filters: Mapping[str, Sequence[Query]], seed: int = 0) -> Iterator[Query]:
    """One query or several for each subset of ``filters``; the empty subset first."""
    dice = random.Random(seed)
    for size in range(len(filters) + 1):
        for names in combinations(filters, size):
            values = [filters[name] for name in names]
            drawn = ([dice.choice(each) for each in values] for _ in range(DRAWN))
            for chosen in product(*values) if size <= EACH_VALUE_UP_TO else drawn:
                yield {name: value for each in chosen for name, value in each.items()}


def _each(name: str, *values: str) -> list[Query]:
    return [{name: value} for value in values]
