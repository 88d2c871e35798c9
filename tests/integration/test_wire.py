"""An independent ISO 8583 client over a plain socket, with real cards and decisions."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.support.api.driver import Caller
from tests.support.conformance.peer import Network, decode
from tests.support.integration.acquirer import Acquirer, authorization_id, private_tags, purchase
from tests.support.integration.stack import Stack

THREEDS = "6f1fbf8e-8c1a-4f3e-9b44-0a1b2c3d4e5f"
CAVV = "AAABBEg0VhI0VniQEjRWAAAAAAA="


async def test_sign_on_echo_and_sign_off(acquirer: Acquirer) -> None:
    for number, code in enumerate(("001", "301", "002"), start=1):
        request = {"t": "0800", "7": "1121103000", "11": f"{number:06d}", "70": code}
        answer = await acquirer.exchange(request)
        assert {"p", "1"} <= answer.keys()
        assert answer == answer | request | {"t": "0810", "39": "00"}
        assert len(answer) == len(request) + 3


async def test_approval_leaves_one_hold(stack: Stack, demo: Caller, acquirer: Acquirer) -> None:
    card = await demo.funded_card("100.00")
    request = purchase((await stack.card_data(card))[card["id"]], "12.34")
    answer = await acquirer.exchange(request)
    assert (answer["t"], answer["39"], answer["4"], len(answer["38"])) == ("0110", "00", request["4"], 6)
    for number in ("2", "3", "7", "11", "32", "37", "41", "42", "49"):
        assert answer[number] == request[number]
    transaction = await demo.get(f"/v1/transactions/{authorization_id(answer)}")
    assert (transaction["status"], transaction["held_amount"]) == ("pending", "12.34")
    assert transaction["network"]["approval_code"] == answer["38"]
    assert (transaction["network"]["stan"], transaction["network"]["rrn"]) == (request["11"], request["37"])


async def test_repeat_gets_the_same_bytes_and_has_no_effect(
    stack: Stack, demo: Caller, acquirer: Acquirer
) -> None:
    card = await demo.funded_card("100.00")
    plastic = (await stack.card_data(card))[card["id"]]
    for request in (purchase(plastic, "60.00"), purchase(plastic, "60.00")):
        first = await acquirer.exchange_bytes(request)
        assert await acquirer.exchange_bytes(request | {"t": "0101"}) == first
        async with Acquirer(stack.record["iso8583"]) as other:
            assert await other.exchange_bytes(request) == first
        conflicting = await acquirer.exchange(request | {"4": "000000000001"})
        assert (conflicting["39"], "38" in conflicting) == ("94", False)
    balance = await demo.get(f"/v1/cards/{card['id']}/balance")
    assert (balance["held"], balance["available"]) == ("60.00", "40.00")
    listed = (await demo.get(f"/v1/transactions?card_id={card['id']}"))["data"]
    assert [each["decline_reason"] for each in listed] == ["insufficient_funds", None]


async def test_concurrent_copies_get_one_answer(stack: Stack, demo: Caller, acquirer: Acquirer) -> None:
    card = await demo.funded_card("100.00")
    request = purchase((await stack.card_data(card))[card["id"]], "70.00")
    answers = await asyncio.gather(*(acquirer.exchange_bytes(request) for _ in range(8)))
    assert len(set(answers)) == 1
    assert decode(answers[0])["39"] == "00"


async def test_hundred_concurrent_spends_never_overdraw_a_card(
    stack: Stack, demo: Caller, acquirer: Acquirer
) -> None:
    card = await demo.funded_card("37.00")
    plastic = (await stack.card_data(card))[card["id"]]
    answers = await asyncio.gather(*(acquirer.exchange(purchase(plastic, "1.00")) for _ in range(100)))
    codes = [answer["39"] for answer in answers]
    assert (codes.count("00"), codes.count("51")) == (37, 63)


async def test_partial_approval_names_both_amounts(stack: Stack, demo: Caller, acquirer: Acquirer) -> None:
    card = await demo.funded_card("20.00")
    plastic = (await stack.card_data(card))[card["id"]]
    answer = await acquirer.exchange(purchase(plastic, "50.00", de48=private_tags(t07="")))
    assert (answer["39"], answer["4"]) == ("10", "000000002000")
    assert answer["54"] == "0057978D000000005000"


async def test_correct_cvv2_and_3ds_values_are_accepted(
    stack: Stack, demo: Caller, acquirer: Acquirer
) -> None:
    card = await demo.funded_card("100.00")
    plastic = (await stack.card_data(card))[card["id"]]
    for tags in ({"t01": plastic["cvv2"]}, {"t02": CAVV, "t03": THREEDS}):
        answer = await acquirer.exchange(purchase(plastic, de22="811", de25="59", de48=private_tags(**tags)))
        assert answer["39"] == "00"


@pytest.mark.parametrize("length", [0, 5_000])
async def test_bad_frames_close_only_their_connection(stack: Stack, acquirer: Acquirer, length: int) -> None:
    async with await Network.connect(
        (stack.record["iso8583"]["host"], stack.record["iso8583"]["port"])
    ) as bad:
        for _ in range(3):
            bad.writer.write(length.to_bytes(2, "big") + b"x" * length)
        assert await bad.closed()
    echo: dict[str, Any] = {"t": "0800", "7": "1121103000", "11": "000009", "70": "301"}
    assert (await acquirer.exchange(echo))["39"] == "00"
