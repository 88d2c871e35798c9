"""``stanchion listen``: its answers, its output, and the removal of its endpoint."""

from __future__ import annotations

import asyncio
import io
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest
from rich.console import Console

from engine.webhooks.envelope import envelope
from engine.webhooks.signature import HEADER, secret_of, sign
from ops.commands.listen import Listener, listen, remove_orphaned_endpoints
from ops.embedded.local_https import LocalHttpsError, Request, make_authority
from ops.supervision.installation import RUN_FILE
from stanchion import StanchionError

SECRET = secret_of(b"s" * 32)
EVENT_ID = "019aa6f0-4f2c-7cc1-9a31-5b0f6f3f2a7e"
DATA = '{"card_id":"019a","amount":"12.50","risk":{"score":3},"hold_id":null}'
BODY = envelope(EVENT_ID, "authorization.decided", 1_700_000_000_123, DATA)


def nobody(_request: httpx2.Request) -> httpx2.Response:
    raise AssertionError("nothing is passed on")


def delivery(**headers: str) -> Request:
    """A delivery as a dispatcher sends it; headers can be replaced."""
    signature = sign(BODY, [SECRET], int(time.time()))
    return Request(
        "POST", "/", {HEADER.lower(): signature, "content-type": "application/json"} | headers, BODY
    )


def listener(http: httpx2.AsyncClient | None = None, **options: Any) -> tuple[Listener, Callable[[], str]]:
    """A listener that knows its secret, and what it has printed."""
    printed = io.StringIO()
    console = Console(file=printed, soft_wrap=True, highlight=False)
    made = Listener(console, http or httpx2.AsyncClient(transport=httpx2.MockTransport(nobody)), **options)
    made.secrets.append(SECRET)
    made.ready.set()
    return made, printed.getvalue


async def test_a_delivery_is_verified_printed_and_answered() -> None:
    ours, printed = listener()
    assert (await ours.handle(delivery())).status == 200
    assert "authorization.decided  signature verified, answered 200" in printed()
    assert "amount: 12.50" in printed()
    assert 'risk: {"score": 3}' in printed()
    assert "hold_id: null" in printed()


async def test_merchants_texts_cannot_control_the_terminal() -> None:
    ours, printed = listener()
    body = envelope(EVENT_ID, "card.updated", 1_700_000_000_123, '{"name":"\\u001b[2J\\u0007[red]x"}')
    sent = {HEADER.lower(): sign(body, [SECRET], int(time.time()))}
    await ours.handle(Request("POST", "/", sent, body))
    assert "\x1b" not in printed()
    assert "name: \\u001b[2J\\u0007[red]x" in printed()


async def test_a_repeated_delivery_is_marked() -> None:
    ours, printed = listener()
    for _ in range(2):
        await ours.handle(delivery())
    assert printed().count("(delivery 2 of this event)") == 1


@pytest.mark.parametrize(
    "request_",
    [
        Request("POST", "/", {}, BODY),
        delivery(**{HEADER.lower(): sign(BODY, [SECRET], 1)}),
        delivery(**{HEADER.lower(): sign(BODY, ["whsec_other"], int(time.time()))}),
        Request("POST", "/", delivery().headers, BODY + b" "),
    ],
    ids=["unsigned", "old", "another's", "altered"],
)
async def test_delivery_without_a_valid_signature_is_refused_and_not_shown(request_: Request) -> None:
    ours, printed = listener()
    assert (await ours.handle(request_)).status == 400
    assert "refused" in printed()
    assert "12.50" not in printed()


async def test_fail_answers_500_on_purpose() -> None:
    ours, _ = listener(fail=2)
    assert [(await ours.handle(delivery())).status for _ in range(4)] == [500, 500, 200, 200]


async def test_raw_prints_bodies_only() -> None:
    ours, printed = listener(raw=True)
    await ours.handle(delivery())
    assert [json.loads(line)["id"] for line in printed().splitlines()] == [EVENT_ID]


async def test_a_delivery_before_the_secret_waits_for_it() -> None:
    ours, _ = listener()
    ours.ready.clear()
    secret = ours.secrets.pop()
    answering = asyncio.create_task(ours.handle(delivery()))
    await asyncio.sleep(0)
    assert not answering.done()
    ours.secrets.append(secret)
    ours.ready.set()
    assert (await answering).status == 200


async def test_deliveries_are_forwarded_with_bytes_and_signature() -> None:
    arrived: list[httpx2.Request] = []

    def program(request: httpx2.Request) -> httpx2.Response:
        arrived.append(request)
        if len(arrived) == 2:
            raise httpx2.ConnectError("nobody there")
        return httpx2.Response(503 if len(arrived) == 3 else 204)

    transport = httpx2.MockTransport(program)
    async with httpx2.AsyncClient(transport=transport) as http:
        ours, _ = listener(http, forward_to="http://127.0.0.1:9/hook?a=b")
        request = delivery(cookie="private")
        assert [(await ours.handle(request)).status for _ in range(3)] == [204, 502, 503]
    assert arrived[0].content == BODY
    assert str(arrived[0].url) == "http://127.0.0.1:9/hook?a=b"
    assert arrived[0].headers[HEADER] == request.headers[HEADER.lower()]
    assert "cookie" not in arrived[0].headers


class Endpoints:
    """A fake of a client's endpoints for listing and deleting."""

    def __init__(self, *descriptions: str | None) -> None:
        self.rows = {str(number): text for number, text in enumerate(descriptions)}
        self.webhook_endpoints = self

    def list(self) -> list[dict[str, Any]]:
        return [{"id": id_, "description": text} for id_, text in self.rows.items()]

    def delete(self, id_: str) -> None:
        del self.rows[id_]


def test_only_endpoints_of_killed_listeners_are_removed() -> None:
    ours = "stanchion listen, process"
    client: Any = Endpoints(f"{ours} 11", None, f"{ours} 22", "Ledger", f"{ours} 33 and more", f"{ours} x")
    assert remove_orphaned_endpoints(client, lambda pid: pid == 22) == 1
    assert sorted(client.rows) == ["1", "2", "3", "4", "5"]
    client = Endpoints(f"{ours} {os.getpid()}", f"{ours} {2**22 + 1}")
    assert remove_orphaned_endpoints(client) == 1
    assert list(client.rows) == ["0"]


def test_without_a_running_installation_the_error_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(StanchionError, match="no installation runs in that folder"):
        listen(tmp_path, types=["*"])


@pytest.mark.parametrize("authority", ["/etc/other.pem", None])
def test_an_installation_with_another_authority_is_refused(tmp_path: Path, authority: str | None) -> None:
    make_authority(tmp_path)
    record = {
        "base_url": "http://127.0.0.1:1",
        "tenants": [{"mode": "test", "role": "admin", "client_id": "a", "client_secret": "b"}],
        "egress_ca_file": authority,
    }
    (tmp_path / RUN_FILE).write_text(json.dumps(record))
    with pytest.raises(LocalHttpsError, match="does not trust local receivers"):
        listen(tmp_path, types=["*"])
