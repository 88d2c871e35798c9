"""Test cards of a load test, issued over the API of any installation, also a remote one.

The API never returns card numbers. A client with the scope ``cards:reveal`` gets those of test cards as their
holders do, through reveal sessions; only then can the load test speak ISO 8583.
"""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Callable
from typing import Final
from urllib.parse import urlsplit

import httpx2

from loadtests.generators.workload import Card
from stanchion import Client, PermissionDeniedError, money

FUNDS: Final = "1000000.00"
IIN: Final = "45600001"
CONNECT_SECONDS_MAX: Final = 3.0
REVEALED: Final = re.compile(r'data-name="(\w+)">([^<]*)<')
TRIES: Final = 5
"""Attempts to open a reveal page, which admits a limited number of requests a minute from one address."""


class IssuingError(Exception):
    """The installation does not issue or show the cards. The message is one line without card data."""


def issue_cards(client: Client, count: int) -> list[str]:
    """Create a programme, a product, a cardholder and ``count`` funded cards; returns the cards' ids. Raises
    StanchionError."""
    programme = client.programs.create(name="Load test", currency="EUR")
    product = client.card_products.create(
        programme_id=programme["id"],
        name="Load test",
        network="visa",
        currency="EUR",
        form_factor="virtual",
        iin=IIN,
    )
    holder = client.cardholders.create(
        programme_id=programme["id"], given_name="Load", family_name="Test", email="load@example.com"
    )
    ids = []
    for _ in range(count):
        card = client.cards.create(card_product_id=product["id"], cardholder_id=holder["id"])
        client.cards.load(card["id"], money(FUNDS, "EUR"))
        ids.append(card["id"])
    return ids


def reveal_card(
    client: Client, http: httpx2.Client, card_id: str, sleep: Callable[[float], None] = time.sleep
) -> Card | None:
    """The card with its number, as its holder sees it once; ``None`` if the client may not open a session.
    Raises StanchionError and IssuingError."""
    try:
        session = client.cards.reveal(card_id)
    except PermissionDeniedError:
        return None
    address = urlsplit(session["url"])
    for _ in range(TRIES):
        answer = http.post(address._replace(fragment="").geturl(), json={"token": address.fragment})
        if answer.status_code != 429:
            break
        sleep(float(answer.headers.get("retry-after", "1")))
    if answer.status_code != 200:
        raise IssuingError(f"the vision host answers {answer.status_code} to a reveal session")
    shown = dict(REVEALED.findall(answer.text))
    month, _, year = shown["expiry"].partition("/")
    return Card(card_id, shown["number"].replace(" ", ""), f"{year}{month}")


def edge_of(option: str, base_url: str) -> tuple[str, int]:
    """Host and port of ``HOST:PORT``, or ``:PORT`` on the API's machine. Raises IssuingError."""
    host, colon, port = option.rpartition(":")
    if not colon or not port.isdecimal():
        raise IssuingError("--edge takes HOST:PORT, or :PORT on the API's machine")
    return host.strip("[]") or urlsplit(base_url).hostname or "", int(port)


def is_reachable(host: str, port: int) -> bool:
    """Whether the port accepts a connection."""
    try:
        socket.create_connection((host, port), CONNECT_SECONDS_MAX).close()
    except OSError:
        return False
    return True
