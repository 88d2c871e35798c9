"""A rival's web server answers with the decision."""

from __future__ import annotations

import asyncio
import json

from aiohttp import ClientSession

from engine.commands import Authorize, CardCommand
from engine.replies import Reply, WireAnswer
from loadtests.generators.web import PATH as LOADED
from loadtests.generators.web import WebLoad
from ops.bench.web import PATH, Web
from tests.ops.bench.twin import SALE

CARD = "01a20004-c598-7778-bff4-5a1c14fef4aa"


async def test_a_request_is_one_decision() -> None:
    seen: list[CardCommand] = []

    async def submit(command: CardCommand) -> Reply:
        seen.append(command)
        return WireAnswer("00", command.id, "0S452D", 150)

    web = Web(submit)
    host, port = await web.start()
    body = {name: SALE[name] for name in ("mcc", "merchant_name", "merchant_country", "channel")}
    body |= {"card_id": CARD, "amount": {"amount": "1.50", "currency": "EUR"}}
    async with ClientSession() as client:
        async with client.post(f"http://{host}:{port}{PATH}", json=body) as response:
            answer = json.loads(await response.read())
            assert response.status == 200
        async with client.post(f"http://{host}:{port}{PATH}", json={}) as response:
            assert response.status == 422
    await web.stop()
    (command,) = seen
    assert isinstance(command, Authorize)
    assert (command.card_id, command.amount_minor, command.currency) == (CARD, 150, "EUR")
    assert answer == {
        "authorization_id": command.id,
        "response_code": "00",
        "approved_amount": "1.50",
    }


async def test_the_load_counts_approvals_and_refusals() -> None:
    codes = iter(["00", "51", "00"])
    enough = asyncio.Event()

    async def submit(command: CardCommand) -> Reply:
        code = next(codes, None)
        if code is None:
            # One at a time: whoever asks a fourth time has three answers.
            enough.set()
        return WireAnswer(code or "51", command.id)

    web = Web(submit)
    address = await web.start()
    load = WebLoad([address], [CARD], 1)
    await load.start()
    await enough.wait()
    samples = await load.stop()
    await web.stop()
    assert LOADED == PATH
    assert samples.approved == 2
    assert samples.refused == len(samples.done) - 2
