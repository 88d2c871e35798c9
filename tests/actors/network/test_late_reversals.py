"""An approval that misses its deadline, or may have been given, is reversed once."""

from __future__ import annotations

import asyncio
from typing import Literal

import pytest

from actors.network.card_secrets import CardSecrets
from engine.commands import Reverse, reference_of_message
from engine.ids import Derived, derive
from engine.iso8583.elements import write_private
from engine.iso8583.identity import late_reversal_key
from engine.replies import NotExecuted, Reply, WireAnswer
from tests.support.actors.network.support import (
    CARD_ID,
    DEADLINE_MS,
    Harness,
    accept,
    approve,
    let_expire,
    outcome_for_all,
    request,
    running_edge,
    until,
)
from tests.support.engine.iso8583.messages import ORIGINAL


async def test_late_approval_is_reversed_and_its_repeats_get_91(card_secrets: CardSecrets) -> None:
    async with running_edge(card_secrets, deadline_ms=DEADLINE_MS) as harness, harness.peer() as peer:
        harness.owners.gate.clear()
        first = await let_expire(harness, peer, request())
        assert first.fields[39] == "91"
        assert harness.owners.late_reversals == []
        harness.owners.gate.set()
        await until(lambda: harness.owners.late_reversals)
        (reversal,) = harness.owners.late_reversals
        (command,) = harness.owners.authorizations
        assert reversal.references == (reference_of_message(command.command_key),)
        assert reversal.command_key == late_reversal_key(command.command_key)
        assert (reversal.card_id, reversal.remaining_minor, reversal.increment_minor) == (CARD_ID, None, None)
        counts = harness.respondent.late_reversals.counts
        assert (counts.late_approvals, counts.unknown_outcomes) == (1, 0)
        assert harness.respondent.counts.answered == 0
        # The stored approval was reversed, so a repeat gets the same answer as the original.
        assert await peer.ask(request(mti="0101")) == first
        assert len(harness.owners.submitted) == len(harness.owners.late_reversals) == 1


async def test_approval_that_cannot_be_sent_is_reversed(card_secrets: CardSecrets) -> None:
    async with running_edge(card_secrets) as harness, harness.peer() as peer:
        harness.owners.decide = lambda command: WireAnswer("00", command.id, "longer than DE38", 7_00)
        assert (await peer.ask(request())).fields[39] == "96"
        await until(lambda: harness.owners.late_reversals)
        assert harness.respondent.late_reversals.counts.unknown_outcomes == 1
        assert (harness.respondent.counts.answered, harness.respondent.counts.failed) == (0, 1)
        await until(lambda: not harness.respondent._open_commands)


async def test_late_increment_is_reversed_by_its_amount(card_secrets: CardSecrets) -> None:
    async with running_edge(card_secrets, deadline_ms=DEADLINE_MS) as harness, harness.peer() as peer:
        harness.owners.gate.clear()
        harness.owners.decide = lambda command: WireAnswer("10", "original", "ABC123", 7_00)
        increment = request(de48=write_private({"04": "SN1", "06": "INC"}))
        assert (await let_expire(harness, peer, increment)).fields[39] == "91"
        harness.owners.gate.set()
        await until(lambda: harness.owners.late_reversals)
        assert harness.owners.late_reversals[0].increment_minor == 7_00


async def test_approval_late_for_all_repeats_is_reversed_once(card_secrets: CardSecrets) -> None:
    async with running_edge(card_secrets, deadline_ms=DEADLINE_MS) as harness, harness.peer() as peer:
        harness.owners.gate.clear()
        for mti in ("0100", "0101", "0101"):
            assert (await let_expire(harness, peer, request(mti=mti))).fields[39] == "91"
        harness.owners.gate.set()
        await until(lambda: harness.owners.late_reversals)
        await until(lambda: not harness.respondent._open_commands)
        assert len(harness.owners.late_reversals) == 1


UNKNOWN: list[Reply | BaseException] = [
    NotExecuted("unavailable"),
    ConnectionResetError(),
    RuntimeError(),
    MemoryError(),
    asyncio.CancelledError(),
]


@pytest.mark.parametrize("outcome", UNKNOWN, ids=repr)
async def test_unknown_outcome_is_reversed(harness: Harness, outcome: Reply | BaseException) -> None:
    harness.owners.decide = outcome_for_all(outcome)
    async with harness.peer() as peer:
        first = await peer.ask(request())
        await until(lambda: harness.owners.late_reversals)
        assert harness.respondent.late_reversals.counts.unknown_outcomes == 1
        harness.owners.decide = accept
        assert (await peer.ask(request(mti="0101"))).fields[39] == "91"
    assert first.fields[39] in ("91", "96")


async def test_late_stored_approval_is_reversed(card_secrets: CardSecrets) -> None:
    """The owner that executed the command is gone. The next one answers from the journal, after the
    deadline."""
    async with running_edge(card_secrets, deadline_ms=DEADLINE_MS) as harness, harness.peer() as peer:
        harness.owners.gate.clear()
        harness.owners.decide = lambda command: WireAnswer("00", command.id, "ABC123", 12_34, replayed=True)
        assert (await let_expire(harness, peer, request())).fields[39] == "91"
        harness.owners.gate.set()
        await until(lambda: harness.owners.late_reversals)
        (reversal,), (command,) = harness.owners.late_reversals, harness.owners.authorizations
        assert derive(reversal.id, Derived.LATE_REVERSAL) == command.id


async def test_repeat_gets_an_approval_whose_late_reversal_had_no_effect(card_secrets: CardSecrets) -> None:
    """Another edge gave the approval to the network in time, so the owner answers 21."""
    async with running_edge(card_secrets, deadline_ms=DEADLINE_MS) as harness, harness.peer() as peer:
        harness.owners.reverse_late = lambda command: WireAnswer("21", command.id)
        harness.owners.gate.clear()
        assert (await let_expire(harness, peer, request())).fields[39] == "91"
        harness.owners.gate.set()
        await until(lambda: harness.respondent.late_reversals.counts.no_action)
        assert (await peer.ask(request(mti="0101"))).fields[39] == "00"
        assert harness.respondent.late_reversals.counts.done == 0


@pytest.mark.parametrize("reason", ["deadline", "overloaded", "faulty", "key_reused"])
async def test_command_that_was_not_executed_is_not_reversed(
    harness: Harness, reason: Literal["deadline", "overloaded", "faulty", "key_reused"]
) -> None:
    harness.owners.decide = lambda _: NotExecuted(reason)
    async with harness.peer() as peer:
        await peer.ask(request())
        harness.owners.decide = approve
        assert (await peer.ask(request(mti="0101"))).fields[39] == "00"
    assert harness.owners.late_reversals == []


@pytest.mark.parametrize("mti", ["0120", "0220", "0400", "0420"])
async def test_only_authorizations_are_reversed(card_secrets: CardSecrets, mti: str) -> None:
    async with running_edge(card_secrets, deadline_ms=DEADLINE_MS) as harness, harness.peer() as peer:
        harness.owners.gate.clear()
        assert (await let_expire(harness, peer, request(1, mti, de90=ORIGINAL))).fields[39] == "91"
        harness.owners.gate.set()
        await until(lambda: not harness.respondent._open_commands)
        harness.owners.decide = lambda _: NotExecuted("unavailable")
        assert (await peer.ask(request(2, mti, de90=ORIGINAL))).fields[39] == "91"
        assert (await peer.ask(request(1, f"{mti[:3]}1", de90=ORIGINAL))).fields[39] == "00"
        assert harness.owners.late_reversals == []


async def test_late_reversal_is_repeated_until_an_owner_answers(harness: Harness) -> None:
    outcomes: list[Reply | BaseException] = [
        NotExecuted("unavailable"),
        NotExecuted("overloaded"),
        NotExecuted("not_owner"),
        ConnectionResetError(),
    ]

    def reverse(command: Reverse) -> Reply:
        outcome = outcomes.pop(0) if outcomes else accept(command)
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    harness.owners.reverse_late = reverse
    harness.owners.decide = lambda _: NotExecuted("unavailable")
    async with harness.peer() as peer:
        await peer.ask(request())
    counts = harness.respondent.late_reversals.counts
    await until(lambda: counts.done)
    assert len({(command.command_key, command.id) for command in harness.owners.late_reversals}) == 1
    assert (counts.issued, counts.done, counts.retries, counts.failed) == (1, 1, 4, 0)


async def test_stopping_edge_abandons_unanswered_late_reversals(
    card_secrets: CardSecrets, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("actors.network.late_reversals.LATE_REVERSAL_STOP_SECONDS", 0.05)
    async with running_edge(card_secrets) as harness, harness.peer() as peer:
        harness.owners.reverse_late = lambda _: NotExecuted("unavailable")
        harness.owners.decide = lambda _: NotExecuted("unavailable")
        await peer.ask(request())
        await until(lambda: harness.owners.late_reversals)
    counts = harness.respondent.late_reversals.counts
    assert (counts.issued, counts.abandoned) == (1, 1)


async def test_unknown_outcome_of_a_verification_is_not_reversed(harness: Harness) -> None:
    harness.owners.decide = lambda _: NotExecuted("unavailable")
    async with harness.peer() as peer:
        assert (await peer.ask(request(de4="0" * 12))).fields[39] == "91"
    assert harness.owners.late_reversals == []


async def test_late_decline_is_not_reversed(card_secrets: CardSecrets) -> None:
    async with running_edge(card_secrets, deadline_ms=DEADLINE_MS) as harness, harness.peer() as peer:
        harness.owners.gate.clear()
        harness.owners.decide = lambda command: WireAnswer("51", command.id)
        assert (await let_expire(harness, peer, request())).fields[39] == "91"
        harness.owners.gate.set()
        assert (await peer.ask(request(2))).fields[39] == "51"
        assert harness.respondent.late_reversals.counts.late_approvals == 0
