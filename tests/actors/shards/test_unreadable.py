"""A stored row or a command that this release cannot decode: its caller gets ``faulty`` (96), the other
commands of its batch are executed, and the host continues."""

from __future__ import annotations

import msgspec
import pytest

from actors.journal.contract import UnknownOutcomeError
from actors.submission import (
    CommandBatch,
    Submission,
    decode_batch,
    decode_collected,
    decode_replies,
    encode_batch,
)
from engine.cards.account import Account
from engine.commands import Command, reference_of_id
from engine.replies import Deferred, Done, NotExecuted, WireAnswer
from tests.support.actors.shards.support import (
    ADMIN,
    ALL_SHARDS,
    FIRST,
    PATIENCE_MS,
    SECOND,
    Cluster,
    TestHost,
    approved,
    furnish,
)
from tests.support.engine.build import (
    authorize,
    change_programme,
    create_card,
    create_programme,
    load,
    read_balance,
)

FAULTY = NotExecuted("faulty")
CARDS = [create_card(number, number % 256, programme_id=ADMIN.id) for number in range(100, 120)]
UNKNOWN_CONTROL = '[{"kind":"moon_phase","phase":"full"}]'


def spends(first: int = 0) -> list[Command]:
    return [authorize(first + number, card_id=card.id) for number, card in enumerate(CARDS)]


@pytest.fixture
async def successor(cluster: Cluster) -> TestHost:
    """A host without state in memory; another host has written a programme and twenty cards with money."""
    first = await cluster.add("a", ALL_SHARDS)
    await furnish(first)
    await first.execute(*CARDS)
    await first.execute(*(load(number, card_id=card.id) for number, card in enumerate(CARDS)))
    return await cluster.add("b", ALL_SHARDS)


def unreadable(host: TestHost) -> int:
    return host.host.activation.reader.unreadable


async def test_only_the_card_with_an_unknown_control_is_faulty(cluster: Cluster, successor: TestHost) -> None:
    cluster.store.cards.rows[CARDS[7].id]["controls"] = UNKNOWN_CONTROL
    replies = await successor.execute(*spends())
    assert [number for number, reply in enumerate(replies) if not approved(reply)] == [7]
    assert replies[7] == FAULTY
    assert unreadable(successor) == 1
    assert successor.faults.calls["load_cards"] == 1


async def test_repaired_card_is_served_again(cluster: Cluster, successor: TestHost) -> None:
    row = cluster.store.cards.rows[CARDS[0].id]
    controls, row["controls"] = row["controls"], UNKNOWN_CONTROL
    for number in range(3):
        assert await successor.execute_one(authorize(number, card_id=CARDS[0].id)) == FAULTY
    row["controls"] = controls
    assert approved(await successor.execute_one(authorize(9, card_id=CARDS[0].id)))


async def test_unreadable_programme_makes_its_cards_faulty(cluster: Cluster, successor: TestHost) -> None:
    other = create_programme(2)
    strangers = [create_card(number, number % 256, programme_id=other.id) for number in range(200, 203)]
    await successor.execute(other)
    await successor.execute(*strangers)
    cluster.store.programmes.rows[other.id]["config"] = "[]"
    third = await cluster.add("c", ALL_SHARDS)
    replies = await third.execute(
        *spends(), *(authorize(900 + n, card_id=c.id) for n, c in enumerate(strangers))
    )
    assert all(map(approved, replies[: len(CARDS)]))
    assert replies[len(CARDS) :] == [FAULTY] * 3
    assert await third.execute_one(change_programme(1, programme_id=other.id, name="New")) == FAULTY
    assert await third.execute_one(create_card(300, programme_id=other.id)) == FAULTY


async def test_unreadable_authorization_makes_its_follow_up_faulty(
    cluster: Cluster, successor: TestHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    await successor.execute(*spends())
    read = cluster.store.authorizations

    def failing(card_id: str, reference: str) -> object:
        if card_id == CARDS[3].id:
            raise ValueError(reference)
        return read(card_id, reference)

    monkeypatch.setattr(cluster.store, "authorizations", failing)
    third = await cluster.add("c", ALL_SHARDS)
    raises = [
        authorize(500 + n, card_id=card.id, references=(reference_of_id(spend.id),), amount_minor=1)
        for n, (card, spend) in enumerate(zip(CARDS, spends(), strict=True))
    ]
    replies = await third.execute(*raises)
    assert [number for number, reply in enumerate(replies) if not approved(reply)] == [3]
    assert replies[3] == FAULTY


async def test_read_that_fails_as_a_whole_is_repeated_row_by_row(
    cluster: Cluster, successor: TestHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fault outside the decoding of a row: here, of an account."""
    read = cluster.store.account

    def failing(account_id: str) -> Account | None:
        if account_id == CARDS[5].account_id:
            raise RuntimeError(account_id)
        return read(account_id)

    monkeypatch.setattr(cluster.store, "account", failing)
    replies = await successor.execute(*spends())
    assert [number for number, reply in enumerate(replies) if not approved(reply)] == [5]
    assert replies[5] == FAULTY


async def test_unreadable_card_during_recovery_leaves_the_committer_running(
    cluster: Cluster, successor: TestHost
) -> None:
    assert all(map(approved, await successor.execute(*spends())))
    cluster.store.cards.rows[CARDS[7].id]["controls"] = UNKNOWN_CONTROL
    successor.faults.fail("before", "commit", UnknownOutcomeError())
    replies = await successor.execute(*spends(100))
    assert [number for number, reply in enumerate(replies) if not approved(reply)] == [7]
    successor.faults.refuses = lambda rows: None
    assert approved(await successor.execute_one(authorize(950, card_id=CARDS[0].id)))


async def test_only_the_command_with_an_unreadable_stored_reply_is_faulty(
    cluster: Cluster, successor: TestHost
) -> None:
    assert all(map(approved, await successor.execute(*spends())))
    key = spends()[4].command_key
    cluster.store.command_keys[key]["reply"] = "{}"
    next(row for row in cluster.store.journal.rows.values() if row["command_key"] == key)["reply"] = "{}"
    third = await cluster.add("c", ALL_SHARDS)
    for _ in range(2):
        replies = await third.execute(*spends())
        assert [number for number, reply in enumerate(replies) if not approved(reply)] == [4]
        assert replies[4] == FAULTY


@pytest.mark.parametrize("decisioning", ["platform", "delegated"])
async def test_missing_time_zone_makes_only_its_programme_faulty(
    cluster: Cluster, host: TestHost, decisioning: str
) -> None:
    lost = create_programme(
        2, timezone="Mars/Olympus", decisioning=decisioning, decision_url="https://decide.example"
    )
    stranger = create_card(50, programme_id=lost.id)
    await host.execute(lost)
    await host.execute(stranger, load(51, card_id=stranger.id))
    replies = await host.execute(
        authorize(1, card_id=FIRST.id), authorize(2, card_id=stranger.id), authorize(3, card_id=FIRST.id)
    )
    assert [approved(reply) for reply in replies] == [True, False, True]
    assert replies[1] == FAULTY
    assert isinstance(await host.execute_one(read_balance(1, card_id=stranger.id)), Done)


# --- commands and replies ----------------------------------------------------------------------------------


def batch_of(*commands: Command) -> bytes:
    return encode_batch(CommandBatch("a router", [Submission(each, PATIENCE_MS) for each in commands]))


def with_unknown_kind(payload: bytes, position: int) -> bytes:
    caller, submissions = msgspec.msgpack.decode(payload)
    submissions[position]["command"]["command"] = "teleport"
    return msgspec.msgpack.encode([caller, submissions])


async def test_only_the_command_of_unknown_kind_is_faulty(host: TestHost) -> None:
    commands = [authorize(number, card_id=FIRST.id) for number in range(3)]
    caller, submissions = decode_batch(with_unknown_kind(batch_of(*commands), 1))
    replies = await host.host.execute_decodable(submissions, caller)
    assert [approved(reply) for reply in replies] == [True, False, True]
    assert replies[1] == FAULTY
    assert host.host.counts.figures()["stanchion_refusals"] == {("faulty",): 1}


async def test_batch_without_a_decodable_command_is_answered(host: TestHost) -> None:
    caller, submissions = decode_batch(with_unknown_kind(batch_of(authorize(1, card_id=SECOND.id)), 0))
    assert await host.host.execute_decodable(submissions, caller) == [FAULTY]


def test_undecodable_reply_leaves_its_outcome_unknown() -> None:
    known, unknown = WireAnswer("00", "x"), {"reply": "teleported"}
    assert decode_replies(msgspec.msgpack.encode([known, unknown])) == [known, NotExecuted("unavailable")]
    collected = msgspec.msgpack.encode([(1, unknown), (2, Deferred())])
    assert decode_collected(collected) == [(1, NotExecuted("unavailable")), (2, Deferred())]
