"""Every request gets exactly one answer within its deadline; an approval that misses it is reversed."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Literal

import msgspec
import pytest

from actors.network.card_secrets import CardSecrets
from actors.network.cards import IssuedCard
from actors.network.database import DatabaseUnavailableError
from actors.network.exchange import MessageCommand
from actors.network.lookup import Lookup
from engine.commands import Advise, Present, Reverse, reference_of_message
from engine.ids import Derived, derive, shard_of
from engine.iso8583.elements import read_additional_amounts, write_private
from engine.iso8583.identity import late_reversal_key
from engine.pan import luhn_digit
from engine.replies import NotExecuted, Problem, Reply, WireAnswer
from tests.support.actors.network.support import (
    CARD,
    CARD_ID,
    DEADLINE_MS,
    PAN,
    Harness,
    accept,
    approve,
    let_expire,
    lookup_of,
    request,
    running_edge,
    until,
)
from tests.support.engine.iso8583.messages import ORIGINAL
from tests.support.steady_loop import advance


async def test_approval_is_answered(harness: Harness) -> None:
    async with harness.peer() as peer:
        answer = await peer.ask(request())
    (command,) = harness.owners.authorizations
    assert (answer.mti, answer.fields[39], answer.fields[38]) == ("0110", "00", answer.fields[38])
    assert command.card_id == CARD_ID
    assert shard_of(command.id) == shard_of(CARD_ID)
    assert (command.amount_minor, command.currency, command.cvv2, command.authentication) == (
        12_34,
        "EUR",
        "absent",
        "absent",
    )


async def test_partial_approval_has_both_amounts(harness: Harness) -> None:
    harness.owners.decide = lambda command: WireAnswer("10", command.id, "ABC123", 5_00)
    async with harness.peer() as peer:
        answer = await peer.ask(request(de48=write_private({"07": ""})))
    assert (answer.fields[39], answer.fields[4]) == ("10", "000000000500")
    assert read_additional_amounts(answer.fields[54])[0].amount_minor == 12_34


async def test_unknown_card_gets_14_and_reaches_no_owner(harness: Harness) -> None:
    async with harness.peer() as peer:
        answer = await peer.ask(request(de2="4999999999999999"))
    assert answer.fields[39] == "14"
    assert harness.owners.submitted == []
    assert harness.respondent.probes.counts.unknown_cards == 1


async def test_authorization_for_an_overloaded_owner_gets_91(card_secrets: CardSecrets) -> None:
    """Repeats, whose originals may have been approved, and reversals are submitted."""
    checked: list[str] = []

    def should_shed(card_id: str) -> bool:
        checked.append(card_id)
        return True

    async with running_edge(card_secrets, should_shed=should_shed) as harness, harness.peer() as peer:
        assert (await peer.ask(request(1))).fields[39] == "91"
        assert (checked, harness.owners.submitted, harness.respondent.open) == ([CARD_ID], [], 0)
        assert (await peer.ask(request(1, "0101"))).fields[39] == "00"
        assert (await peer.ask(request(2, "0400", de90=ORIGINAL))).mti == "0410"
        assert (harness.respondent.counts.shed, len(harness.owners.submitted)) == (1, 2)


@pytest.mark.parametrize(
    ("mti", "response", "type_"),
    [
        ("0120", "0130", Advise),
        ("0220", "0230", Present),
        ("0400", "0410", Reverse),
        ("0420", "0430", Reverse),
    ],
)
async def test_each_class_reaches_the_owner_or_gets_14(
    harness: Harness, mti: str, response: str, type_: type[MessageCommand]
) -> None:
    async with harness.peer() as peer:
        answer = await peer.ask(request(1, mti, de90=ORIGINAL))
        assert (answer.mti, answer.fields[39]) == (response, "00")
        unknown = await peer.ask(request(2, mti, de90=ORIGINAL, de2="4999999999999999"))
        assert (unknown.mti, unknown.fields[39]) == (response, "14")
    (command,) = harness.owners.submitted
    assert type(command) is type_
    assert (command.card_id, shard_of(command.id)) == (CARD_ID, shard_of(CARD_ID))


async def test_malformed_field_gets_30_and_keeps_the_connection(harness: Harness) -> None:
    async with harness.peer() as peer:
        for stan in range(10):
            answer = await peer.ask(request(stan, de4="00000000x234"))
            assert (answer.fields[39], answer.fields[11]) == ("30", f"{stan:06d}")
    assert harness.owners.submitted == []
    assert harness.respondent.counts.invalid == 10


@pytest.mark.parametrize(
    ("presented", "outcome"), [("right", "match"), ("wrong", "mismatch"), ("12", "mismatch")]
)
async def test_command_has_only_the_outcome_of_the_cvv2_check(
    harness: Harness, presented: str, outcome: str
) -> None:
    right = harness.card_secrets.cvv2(PAN, CARD.exp_year, CARD.exp_month, CARD.cvk_generation)
    wrong = f"{(int(right) + 1) % 1000:03d}"
    value = {"right": right, "wrong": wrong}.get(presented, presented)
    async with harness.peer() as peer:
        await peer.ask(request(de48=write_private({"01": value})))
    assert harness.owners.authorizations[0].cvv2 == outcome


@pytest.mark.parametrize(
    ("fields", "outcome"),
    [
        ({"de14": "2911"}, "match"),
        ({"de14": "2811"}, "mismatch"),
        ({"de14": "2411"}, "mismatch"),
        ({"de35": f"{PAN}=29112010000"}, "match"),
        ({"de35": f"{PAN}=29122010000"}, "mismatch"),
        ({"de14": "2912", "de35": f"{PAN}=29112010000"}, "mismatch"),
    ],
)
async def test_command_has_only_the_outcome_of_the_expiry_check(
    harness: Harness, fields: dict[str, str], outcome: str
) -> None:
    message = request()
    message.fields.update({int(name[2:]): value for name, value in fields.items()})
    async with harness.peer() as peer:
        await peer.ask(message)
    assert harness.owners.authorizations[0].expiry == outcome


async def test_message_without_expiry_is_accepted(harness: Harness) -> None:
    plain = request()
    del plain.fields[14]
    async with harness.peer() as peer:
        assert (await peer.ask(plain)).fields[39] == "00"
    assert harness.owners.authorizations[0].expiry == "absent"


@pytest.mark.parametrize("mti", ["0100", "0120", "0220", "0420"])
async def test_unverifiable_mac_gets_30_and_reaches_no_owner(harness: Harness, mti: str) -> None:
    async with harness.peer() as peer:
        answer = await peer.ask(request(1, mti, de90=ORIGINAL, de128="0123456789ABCDEF"))
    assert answer.fields[39] == "30"
    assert harness.owners.submitted == []


@pytest.mark.parametrize(
    "fields",
    [
        {"de35": "4111111111111111=291120100000123=9"},
        {"de35": "4111111111111129=29112010000012300000"},
        {"de52": "PIN5678901234567"},
        {"de55": "5A0841111111111111115A08"},
        {"de55": "5A084111111111111129"},
        {"de64": "MAC4567890123456"},
    ],
)
async def test_malformed_card_data_get_30_and_are_not_logged(
    harness: Harness,
    fields: dict[str, str],
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with harness.peer() as peer:
        answer = await peer.ask(request(1, **fields))
        assert answer.fields[39] == "30"
        assert not {35, 52, 55, 64} & set(answer.fields)
        # The connection stays open: the message was decodable.
        assert (await peer.ask(request(2))).fields[39] == "00"
    written = "".join(capfd.readouterr()) + caplog.text
    assert not any(value[4:20] in written for value in fields.values())
    assert len(harness.owners.submitted) == 1


async def test_command_of_a_card_read_has_no_card_data(harness: Harness) -> None:
    card = (PAN, CARD.exp_year, CARD.exp_month, CARD.cvk_generation)
    track = harness.card_secrets.chip_track_2(*card)
    chip = "820219809F2608A1A2A3A4A5A6A7A8"
    async with harness.peer() as peer:
        await peer.ask(request(1, de35=track, de55=chip, de52="0123456789ABCDEF"))
    (command,) = harness.owners.authorizations
    outcomes = (command.expiry, command.cvv1, command.chip, command.pin)
    assert outcomes == ("match", "match", "present", "refused")
    assert command.chip_tags == ("82=1980", "9F26=****")
    stored = msgspec.json.encode(command).decode()
    assert not any(part in stored for part in (PAN, track[-8:], "A1A2A3A4", "0123456789ABCDEF"))


async def test_command_has_only_the_outcome_of_the_authentication_check(harness: Harness) -> None:
    evidence = {"02": "AAECAwQFBgcICQoLDA0ODxAREhM=", "03": "0b9f2c0a-6b1e-4b37-9d5f-3c1f0a2b4c5d"}
    async with harness.peer() as peer:
        await peer.ask(request(1, de48=write_private(evidence)))
        await peer.ask(request(2, de48=write_private({"02": "AAEC"})))
    assert [command.authentication for command in harness.owners.authorizations] == ["present", "malformed"]


# Every reply and every exception of a submission.
REPLIES: list[tuple[Reply | BaseException, str]] = [
    (NotExecuted("unavailable"), "91"),
    (NotExecuted("overloaded"), "91"),
    (NotExecuted("deadline"), "91"),
    (NotExecuted("faulty"), "96"),
    (NotExecuted("key_reused"), "94"),
    (Problem(404, "not-found", ""), "96"),
    (ConnectionResetError(), "91"),
    (TimeoutError(), "91"),
    (MemoryError(), "91"),
    (RuntimeError("4111111111111111"), "96"),
    (asyncio.CancelledError(), "91"),
]


@pytest.mark.parametrize(("outcome", "code"), REPLIES, ids=lambda outcome: repr(outcome)[:40])
async def test_every_reply_and_error_has_a_response_code(
    harness: Harness, outcome: Reply | BaseException, code: str
) -> None:
    def decide(_: MessageCommand) -> Reply:
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    harness.owners.decide = decide
    async with harness.peer() as peer:
        assert (await peer.ask(request())).fields[39] == code


async def test_exception_before_submission_gets_96(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: object) -> None:
        raise RuntimeError

    monkeypatch.setattr(harness.respondent, "_submit", broken)
    async with harness.peer() as peer:
        assert (await peer.ask(request())).fields[39] == "96"


# Late reversals


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
        counts = harness.respondent.counts
        assert (counts.late_approvals, counts.answered, counts.unknown_outcomes) == (1, 0, 0)
        # The stored approval was reversed, so a repeat gets the same answer as the original.
        assert await peer.ask(request(mti="0101")) == first
        assert len(harness.owners.submitted) == len(harness.owners.late_reversals) == 1


async def test_late_increment_is_reversed_by_its_amount(card_secrets: CardSecrets) -> None:
    async with running_edge(card_secrets, deadline_ms=DEADLINE_MS) as harness, harness.peer() as peer:
        harness.owners.gate.clear()
        harness.owners.decide = lambda command: WireAnswer("10", "original", "ABC123", 7_00)
        increment = request(de48=write_private({"04": "SN1", "06": "INC"}))
        assert (await let_expire(harness, peer, increment)).fields[39] == "91"
        harness.owners.gate.set()
        await until(lambda: harness.owners.late_reversals)
        assert harness.owners.late_reversals[0].increment_minor == 7_00


async def test_open_repeat_gets_the_approval_that_was_late_for_its_original(
    card_secrets: CardSecrets,
) -> None:
    async with running_edge(card_secrets, deadline_ms=DEADLINE_MS) as harness, harness.peer() as peer:
        harness.owners.gate.clear()
        assert (await let_expire(harness, peer, request())).fields[39] == "91"
        peer.send(request(mti="0101"))
        await until(lambda: len(harness.owners.submitted) == 2)
        harness.owners.gate.set()
        assert (await peer.receive()).fields[39] == "00"
        await until(lambda: not harness.respondent._open_commands)
        assert harness.owners.late_reversals == []


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
    def decide(_: MessageCommand) -> Reply:
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    harness.owners.decide = decide
    async with harness.peer() as peer:
        first = await peer.ask(request())
        await until(lambda: harness.owners.late_reversals)
        assert harness.respondent.counts.unknown_outcomes == 1
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


async def test_exchanges_of_one_message_share_one_command(card_secrets: CardSecrets) -> None:
    async with running_edge(card_secrets) as harness, harness.peer() as peer:
        harness.owners.gate.clear()
        peer.send(request(), request(mti="0101"))
        await until(lambda: len(harness.owners.submitted) == 2)
        first, second = harness.owners.authorizations
        assert first == second
        harness.owners.gate.set()
        assert [(await peer.receive()).fields[39] for _ in range(2)] == ["00", "00"]


async def test_stopping_edge_waits_for_late_approvals(card_secrets: CardSecrets) -> None:
    async with running_edge(card_secrets, deadline_ms=DEADLINE_MS) as harness, harness.peer() as peer:
        harness.owners.gate.clear()
        assert (await let_expire(harness, peer, request())).fields[39] == "91"
        stopping = asyncio.create_task(harness.edge.stop())
        await asyncio.sleep(0)
        harness.owners.gate.set()
        await stopping
        assert len(harness.owners.late_reversals) == 1


async def test_stopping_edge_reverses_requests_without_an_answer(
    card_secrets: CardSecrets, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("actors.network.respondent.LATE_REVERSAL_STOP_SECONDS", 0.05)
    async with running_edge(card_secrets, deadline_ms=DEADLINE_MS) as harness, harness.peer() as peer:
        harness.owners.gate.clear()
        assert (await let_expire(harness, peer, request())).fields[39] == "91"
        await harness.edge.stop()
        assert len(harness.owners.late_reversals) == 1


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
        assert harness.respondent.counts.late_approvals == 0


WITHHELD = write_private({"99": "force_stip_timeout"})


async def test_withheld_answer_leaves_after_its_delay(card_secrets: CardSecrets) -> None:
    async with running_edge(card_secrets, withheld_ms=1) as harness, harness.peer() as peer:
        assert (await peer.ask(request(de48=WITHHELD))).fields[39] == "00"
    async with running_edge(card_secrets) as harness, harness.peer() as peer:
        peer.send(request(1, de48=WITHHELD), request(2))
        assert (await peer.receive()).fields[11] == "000002"
        await until(lambda: harness.respondent.counts.answered == 2)
        assert len(harness.owners.authorizations) == 2


async def test_late_withheld_approval_is_not_reversed(card_secrets: CardSecrets) -> None:
    async with running_edge(card_secrets, deadline_ms=DEADLINE_MS) as harness, harness.peer() as peer:
        harness.owners.gate.clear()
        peer.send(request(de48=WITHHELD))
        await until(lambda: harness.owners.submitted)
        advance(DEADLINE_MS / 1000)
        await until(lambda: harness.respondent.counts.expired)
        harness.owners.gate.set()
        assert (await peer.ask(request(2))).fields[39] == "00"
        assert (harness.respondent.counts.late_approvals, harness.owners.late_reversals) == (0, [])


async def test_answer_for_a_live_card_is_not_withheld(card_secrets: CardSecrets) -> None:
    live = lookup_of(card_secrets, {PAN: msgspec.structs.replace(CARD, live=True)})
    async with running_edge(card_secrets, live, live=True) as harness, harness.peer() as peer:
        assert (await peer.ask(request(de48=WITHHELD))).fields[39] == "00"


@pytest.mark.parametrize("mti", ["0100", "0120", "0220", "0420"])
@pytest.mark.parametrize("live", [True, False])
async def test_card_of_the_other_mode_does_not_exist(card_secrets: CardSecrets, live: bool, mti: str) -> None:
    """Also when its number is cached already."""
    cards = lookup_of(card_secrets, {PAN: msgspec.structs.replace(CARD, live=not live)})
    async with running_edge(card_secrets, cards, live=live) as harness, harness.peer() as peer:
        for stan in range(2):
            answer = await peer.ask(request(stan, mti, de90=ORIGINAL))
            assert answer.fields[39] == "14"
    assert len(cards) == 1
    assert harness.owners.submitted == []
    assert harness.respondent.probes.counts.unknown_cards == 2


async def test_card_found_after_the_deadline_submits_no_command(card_secrets: CardSecrets) -> None:
    found = asyncio.Event()

    async def fetch(digests: list[bytes]) -> Mapping[bytes, IssuedCard]:
        await found.wait()
        return dict.fromkeys(digests, CARD)

    cards = Lookup(fetch, 10)
    async with running_edge(card_secrets, cards, deadline_ms=DEADLINE_MS) as harness, harness.peer() as peer:
        peer.send(request())
        await until(lambda: harness.respondent.open)
        advance(DEADLINE_MS / 1000)
        assert (await peer.receive()).fields[39] == "91"
        found.set()
        await until(lambda: len(cards) == 1)
        await asyncio.sleep(0)
        assert harness.owners.submitted == []


async def test_unavailable_database_gets_91(card_secrets: CardSecrets) -> None:
    async def fetch(digests: list[bytes]) -> Mapping[bytes, IssuedCard]:
        raise DatabaseUnavailableError

    async with running_edge(card_secrets, Lookup(fetch, 10)) as harness, harness.peer() as peer:
        assert (await peer.ask(request())).fields[39] == "91"
        assert harness.owners.submitted == []


async def test_message_does_not_overtake_an_earlier_one_whose_card_is_looked_up(
    card_secrets: CardSecrets,
) -> None:
    """The second message arrives during the look-up; the third one when it has ended, and the first two have
    not been told yet."""
    looked_up = asyncio.Event()

    async def fetch(digests: list[bytes]) -> Mapping[bytes, IssuedCard]:
        await looked_up.wait()
        (connection,) = harness.edge._connections
        asyncio.get_running_loop().call_soon(harness.respondent.respond, connection, request(3))
        return dict.fromkeys(digests, CARD)

    async with running_edge(card_secrets, Lookup(fetch, 10)) as harness, harness.peer() as peer:
        peer.send(request(1), request(2))
        await until(lambda: harness.respondent.open == 2)
        looked_up.set()
        assert [(await peer.receive()).fields[39] for _ in range(3)] == ["00"] * 3
    assert [command.wire.stan for command in harness.owners.authorizations] == ["000001", "000002", "000003"]


async def test_card_look_ups_are_batched_and_shared(card_secrets: CardSecrets) -> None:
    calls: list[int] = []
    go = asyncio.Event()

    async def fetch(digests: list[bytes]) -> Mapping[bytes, IssuedCard]:
        calls.append(len(digests))
        await go.wait()
        return dict.fromkeys(digests, CARD)

    async with running_edge(card_secrets, Lookup(fetch, 100)) as harness, harness.peer() as peer:
        bodies = [f"4111111111111{number:02d}" for number in range(20)]
        pans = [body + luhn_digit(body) for body in bodies]
        peer.send(request(100, de2=pans[0]))
        await until(lambda: calls)
        peer.send(*(request(stan, de2=pans[stan % 20]) for stan in range(60)))
        peer.send(request(61, de2=pans[0]))
        await until(lambda: harness.edge.counts.requests == 62)
        go.set()
        for _ in range(62):
            assert (await peer.receive()).fields[39] == "00"
        # One batch for the other 19 cards; the card of the open fetch was not fetched again.
        assert calls == [1, 19]
