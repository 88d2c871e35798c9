"""Every request reaches the owner of its card, in the order of arrival, or is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import msgspec
import pytest

from actors.network.card_secrets import CardSecrets
from actors.network.cards import IssuedCard
from actors.network.database import DatabaseUnavailableError
from actors.network.exchange import MessageCommand
from actors.network.lookup import Lookup
from engine.commands import Advise, Present, Reverse
from engine.ids import shard_of
from engine.iso8583.elements import read_additional_amounts, write_private
from engine.pan import luhn_digit
from engine.replies import WireAnswer
from tests.support.actors.network.support import (
    CARD,
    CARD_ID,
    DEADLINE_MS,
    PAN,
    Harness,
    let_expire,
    lookup_of,
    request,
    running_edge,
    unknown_number,
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


async def test_number_with_a_wrong_check_digit_is_not_looked_up(card_secrets: CardSecrets) -> None:
    async with running_edge(card_secrets) as harness, harness.peer() as peer:
        impossible = unknown_number(1)[:-1] + str((int(unknown_number(1)[-1]) + 1) % 10)
        assert (await peer.ask(request(de2=impossible))).fields[39] == "14"
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


async def test_exception_before_submission_gets_96(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: object) -> None:
        raise RuntimeError

    monkeypatch.setattr(harness.respondent._open_commands, "_submit", broken)
    async with harness.peer() as peer:
        assert (await peer.ask(request())).fields[39] == "96"


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
        assert harness.respondent.late_reversals.counts.late_approvals == 0
        assert harness.owners.late_reversals == []


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
