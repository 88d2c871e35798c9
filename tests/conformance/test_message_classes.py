"""Increments, advices, presentments and reversals of an independent ISO 8583 peer, sent to the edge over TCP.

Covers the common behaviour of all classes and the malformed messages of each. The owners are fakes of the
test, so money is not covered here.
"""

from __future__ import annotations

import asyncio

import pytest

from actors.network.exchange import MessageCommand
from engine.commands import Advise, Authorize, Present, Reverse
from engine.replies import WireAnswer
from tests.conformance.test_wire import purchase
from tests.support.actors.network.support import Harness, until
from tests.support.conformance.peer import Document, Network

ARN = "74242420000000000000014"
ORIGINAL = "0100" + "000001" + "1121103000" + "424242".zfill(11) + "0" * 11
REPLACEMENT = "000000000500" + "0" * 12 + "D00000000" + "D00000000"


def private(**tags: str) -> str:
    """A DE48 of ``tags`` (``t04=…``)."""
    return "".join(f"{name[1:]}{len(value):03d}{value}" for name, value in tags.items())


def increment(stan: int = 700, /, **changes: str | None) -> Document:
    return purchase(stan, **({"de48": private(t04="SN1", t06="INC"), "de90": ORIGINAL} | changes))


def advice(stan: int = 700, /, **changes: str | None) -> Document:
    document = purchase(stan, **({"de39": "00", "de48": private(t04="SN1"), "de90": ORIGINAL} | changes))
    return document | {"t": "0120"}


def presentment(stan: int = 700, /, **changes: str | None) -> Document:
    tags = private(t04="SN1", t08=f"{ARN}01", t09="1")
    return purchase(stan, **({"de48": tags, "de90": ORIGINAL} | changes)) | {"t": "0220"}


def reversal(stan: int = 700, /, **changes: str | None) -> Document:
    return purchase(stan, **({"de90": ORIGINAL, "de95": REPLACEMENT} | changes)) | {"t": "0400"}


def reversal_advice(stan: int = 700, /, **changes: str | None) -> Document:
    return purchase(stan, **({"de90": ORIGINAL} | changes)) | {"t": "0420"}


CLASSES = {
    "increment": (increment, "0110", Authorize),
    "advice": (advice, "0130", Advise),
    "presentment": (presentment, "0230", Present),
    "reversal": (reversal, "0410", Reverse),
    "reversal advice": (reversal_advice, "0430", Reverse),
}


@pytest.mark.parametrize("name", CLASSES)
async def test_each_class_gets_its_response(harness: Harness, name: str) -> None:
    build, response, type_ = CLASSES[name]
    async with await Network.connect(harness.address) as network:
        answer = await network.ask(build())
    assert (answer["t"], answer["39"]) == (response, "00")
    for field in ("7", "11", "32", "37"):
        assert answer[field] == build()[field]
    (command,) = harness.owners.submitted
    assert type(command) is type_


@pytest.mark.parametrize("name", CLASSES)
async def test_repeat_of_each_class_gets_the_stored_answer(harness: Harness, name: str) -> None:
    build, _, _ = CLASSES[name]
    async with await Network.connect(harness.address) as network:
        network.send(build())
        first = await network.receive_bytes()
        for repeat in (build(), build() | {"t": f"{build()['t'][:3]}1"}):
            network.send(repeat)
            assert await network.receive_bytes() == first
    async with await Network.connect(harness.address) as other_network:
        other_network.send(build() | {"t": f"{build()['t'][:3]}1"})
        assert await other_network.receive_bytes() == first
    assert len({command.command_key for command in harness.owners.submitted}) == 1


@pytest.mark.parametrize("name", CLASSES)
async def test_duplicate_of_an_open_request_gets_the_same_answer(harness: Harness, name: str) -> None:
    build, _, _ = CLASSES[name]
    harness.owners.gate.clear()
    async with await Network.connect(harness.address) as network:
        network.send(build())
        network.send(build() | {"t": f"{build()['t'][:3]}1"})
        await until(lambda: len(harness.owners.submitted) == 2)
        harness.owners.gate.set()
        assert await network.receive_bytes() == await network.receive_bytes()


@pytest.mark.parametrize("name", CLASSES)
async def test_other_content_under_the_same_identity_gets_94(harness: Harness, name: str) -> None:
    build, _, _ = CLASSES[name]
    async with await Network.connect(harness.address) as network:
        first = await network.ask(build())
        assert (await network.ask(build(de4="000000009999")))["39"] == "94"
        assert await network.ask(build()) == first


@pytest.mark.parametrize("name", CLASSES)
async def test_unknown_card_gets_14(harness: Harness, name: str) -> None:
    build, response, _ = CLASSES[name]
    async with await Network.connect(harness.address) as network:
        answer = await network.ask(build(de2="4999999999999999"))
    assert (answer["t"], answer["39"]) == (response, "14")
    assert harness.owners.submitted == []


async def test_message_classes_with_equal_references_are_distinct_commands(harness: Harness) -> None:
    """An original, its advice and its reversal may have the same STAN, time and retrieval reference."""
    async with await Network.connect(harness.address) as network:
        for message in (purchase(1), advice(1), reversal_advice(1)):
            network.send(message)
        answers = {(await network.receive())["t"] for _ in range(3)}
    assert answers == {"0110", "0130", "0430"}
    assert len({command.command_key for command in harness.owners.submitted}) == 3


async def test_reversal_repeated_as_an_advice_is_the_same_command(harness: Harness) -> None:
    async with await Network.connect(harness.address) as network:
        assert (await network.ask(reversal(de95=None)))["39"] == "00"
        answer = await network.ask(reversal_advice())
    assert (answer["t"], answer["39"]) == ("0430", "00")
    assert len({command.command_key for command in harness.owners.submitted}) == 1


async def test_case_14_presentment_is_identified_by_arn_and_sequence(harness: Harness) -> None:
    async with await Network.connect(harness.address) as network:
        first = await network.ask(presentment(700))
        repeat = await network.ask(presentment(701, de7="1122110000", de12="110000", de13="1122"))
        other = await network.ask(presentment(702, de48=private(t04="SN1", t08=f"{ARN}02")))
    assert (first["39"], first["48"]) == (repeat["39"], repeat["48"])
    assert other["48"] != first["48"]
    assert len({command.command_key for command in harness.owners.submitted}) == 2


async def test_reversal_of_an_unknown_original_gets_no_authorization_id(harness: Harness) -> None:
    harness.owners.decide = lambda _: WireAnswer("00", "")
    async with await Network.connect(harness.address) as network:
        answer = await network.ask(reversal_advice())
    assert (answer["39"], "48" in answer) == ("00", False)


# Malformed messages reach no owner and do not end the connection.


def without(name: str, *numbers: int) -> list[tuple[str, dict[str, str | None]]]:
    """One row for each absent field."""
    return [(name, {f"de{number}": None}) for number in numbers]


PURCHASE_FIELDS = (2, 3, 4, 7, 11, 18, 32, 37, 43, 49)
MALFORMED: list[tuple[str, dict[str, str | None]]] = [
    *without("increment", *PURCHASE_FIELDS),
    ("increment", {"de3": "200000"}),
    ("increment", {"de48": private(t06="ZZZ")}),
    ("increment", {"de48": private(t04="", t06="INC")}),
    ("increment", {"de90": "9" * 42}),
    *without("advice", *PURCHASE_FIELDS),
    ("advice", {"de3": "200000"}),
    ("advice", {"de48": private(t06="INC")}),
    ("advice", {"de90": "x" * 42}),
    *without("presentment", *PURCHASE_FIELDS),
    ("presentment", {"de4": "00000000123x"}),
    ("presentment", {"de48": "0"}),
    ("presentment", {"de48": private(t08=ARN)}),
    ("presentment", {"de48": private(t08=f"{ARN}00")}),
    ("presentment", {"de48": private(t08=f"{ARN[:-1]}x01")}),
    ("presentment", {"de48": private(t08=f"{ARN}01", t09="x")}),
    ("presentment", {"de90": "x" * 42}),
    *without("reversal", 2, 7, 11, 32, 37, 90),
    *without("reversal advice", 2, 7, 11, 32, 37, 90),
    ("reversal", {"de90": ORIGINAL[:-1] + " "}),
    ("reversal", {"de90": ORIGINAL.replace("1121103000", "1121256000")}),
    ("reversal", {"de95": "000000000500".ljust(42)}),
    ("reversal", {"de95": REPLACEMENT.replace("5", "-")}),
    ("reversal", {"de4": "00000000-123"}),
    ("reversal", {"de49": "EUR"}),
    ("reversal", {"de48": "04"}),
    ("reversal advice", {"de95": "x" * 42}),
]


@pytest.mark.parametrize(("name", "changes"), MALFORMED)
async def test_malformed_field_gets_30_and_keeps_the_connection(
    harness: Harness, name: str, changes: dict[str, str | None]
) -> None:
    build, response, _ = CLASSES[name]
    async with await Network.connect(harness.address) as network:
        for _ in range(4):
            answer = await network.ask(build(**changes))
            assert (answer["t"], answer["39"]) == (response, "30")
        assert harness.owners.submitted == []
        assert (await network.ask(build()))["39"] == "00"


# Parallel conversations


async def test_parallel_conversations_get_the_answers_of_their_classes(harness: Harness) -> None:
    """Many connections send each message three times; every message gets the answer of its class."""
    harness.owners.decide = by_class

    async def talk(acquirer: int) -> None:
        async with await Network.connect(harness.address) as network:
            messages = [
                build(stan, de32=f"{acquirer:06d}", **arn(stan, name, acquirer))
                for stan in range(10)
                for name, (build, _, _) in CLASSES.items()
                if name != "reversal"
            ]
            for message in messages * 3:
                network.send(message)
            answers: dict[str, set[str]] = {}
            for _ in messages * 3:
                answer = await network.receive()
                answers.setdefault(answer["t"], set()).add(answer["39"])
            assert answers == {"0110": {"00"}, "0130": {"85"}, "0230": {"00"}, "0430": {"00"}}

    await asyncio.gather(*(talk(acquirer) for acquirer in range(1, 9)))
    assert len({command.command_key for command in harness.owners.submitted}) == 8 * 10 * 4


def arn(stan: int, name: str, acquirer: int) -> dict[str, str]:
    """A unique ARN for each presentment."""
    if name != "presentment":
        return {}
    return {"de48": private(t04="SN1", t08=f"{acquirer:015d}{stan:08d}01")}


def by_class(command: MessageCommand) -> WireAnswer:
    return WireAnswer("85" if isinstance(command, Advise) else "00", command.id)
