"""Test cards for a load test: issued over the API, and read through reveal sessions."""

from __future__ import annotations

import json
import socket
from typing import Any, cast

import httpx2
import pytest

from loadtests.generators.workload import Card
from loadtests.users.issuing import IssuingError, edge_of, is_reachable, issue_cards, reveal_card
from stanchion import Client, PermissionDeniedError

PAGE = """<dl>
<div><dt>Card number</dt><dd data-name="number">4560 0001 2345 6789</dd></div>
<div><dt>Expires</dt><dd data-name="expiry">11/29</dd></div>
<div><dt>Security code</dt><dd data-name="code">123</dd></div>
</dl>"""


class FakeClient:
    """Plays the resources of a client, and remembers the loads."""

    def __init__(self, *, may_reveal: bool = True) -> None:
        self.programs = self.card_products = self.cardholders = self.cards = self
        self.loaded: list[tuple[str, Any]] = []
        self._may_reveal = may_reveal
        self._made = 0

    def create(self, **_fields: Any) -> dict[str, Any]:
        self._made += 1
        return {"id": f"id-{self._made}"}

    def load(self, id_: str, amount: Any) -> None:
        self.loaded.append((id_, amount))

    def reveal(self, id_: str) -> dict[str, str]:
        if not self._may_reveal:
            raise PermissionDeniedError(403, "insufficient-scope", "no")
        return {"url": f"https://vision.example.com/reveal/{id_}#rvl_token"}


def vision(*statuses: int) -> tuple[httpx2.Client, list[httpx2.Request]]:
    """The vision host, which answers with ``statuses`` in turn; and its requests."""
    requests: list[httpx2.Request] = []
    answers = iter(statuses)

    def answer(request: httpx2.Request) -> httpx2.Response:
        requests.append(request)
        status = next(answers)
        return httpx2.Response(status, text=PAGE, headers={"Retry-After": "7"})

    return httpx2.Client(transport=httpx2.MockTransport(answer)), requests


def test_cards_are_issued_and_funded() -> None:
    client = FakeClient()
    ids = issue_cards(cast("Client", client), 3)
    assert len(set(ids)) == 3
    assert [id_ for id_, _ in client.loaded] == ids
    assert {amount["currency"] for _, amount in client.loaded} == {"EUR"}


def test_revealed_card_is_read_as_a_terminal_has_it() -> None:
    http, requests = vision(200)
    card = reveal_card(cast("Client", FakeClient()), http, "c-1")
    assert card == Card("c-1", "4560000123456789", "2911")
    (request,) = requests
    assert str(request.url) == "https://vision.example.com/reveal/c-1"
    assert json.loads(request.content) == {"token": "rvl_token"}


def test_rate_limit_of_the_vision_host_is_waited_out() -> None:
    http, requests = vision(429, 429, 200)
    pauses: list[float] = []
    assert reveal_card(cast("Client", FakeClient()), http, "c-1", pauses.append) is not None
    assert (len(requests), pauses) == (3, [7.0, 7.0])


def test_refused_reveal_is_one_line_without_card_data() -> None:
    http, _ = vision(410)
    with pytest.raises(IssuingError, match=r"^the vision host answers 410 to a reveal session$"):
        reveal_card(cast("Client", FakeClient()), http, "c-1")


def test_client_without_the_scope_gets_no_number() -> None:
    http, requests = vision()
    assert reveal_card(cast("Client", FakeClient(may_reveal=False)), http, "c-1") is None
    assert requests == []


@pytest.mark.parametrize(
    ("option", "edge"),
    [
        (":8583", ("api.example.com", 8583)),
        ("edge.example.com:8600", ("edge.example.com", 8600)),
        ("[::1]:8583", ("::1", 8583)),
    ],
)
def test_edge_is_on_the_machine_of_the_api_unless_named(option: str, edge: tuple[str, int]) -> None:
    assert edge_of(option, "https://api.example.com") == edge


@pytest.mark.parametrize("option", ["8583", "edge", "edge:", "edge:x"])
def test_invalid_edge_is_refused(option: str) -> None:
    with pytest.raises(IssuingError, match="HOST:PORT"):
        edge_of(option, "https://api.example.com")


def test_reachable_port_accepts_a_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert is_reachable("127.0.0.1", port)
    assert not is_reachable("127.0.0.1", port)
