"""Answers to card testing are refused and delayed; those to valid cards of the same sender are not."""

from __future__ import annotations

from actors.network.card_secrets import CardSecrets
from actors.network.probe_limiter import ProbeLimiter
from engine.iso8583.elements import write_private
from engine.limits import PROBES_BURST
from engine.replies import WireAnswer
from tests.support.actors.network.support import (
    DEADLINE_MS,
    PAN,
    request,
    running_edge,
    unknown_number,
    until,
)
from tests.support.steady_loop import advance


async def test_flood_of_unknown_numbers_gets_59_and_valid_cards_are_approved(
    card_secrets: CardSecrets,
) -> None:
    async with running_edge(card_secrets, probes=ProbeLimiter(lambda: 0.0), open_max=10**6) as harness:
        async with harness.peer() as peer:
            answers: list[str] = []
            for first in range(0, 5_000, 500):
                peer.send(*(request(stan, de2=unknown_number(stan)) for stan in range(first, first + 500)))
                answers += [(await peer.receive()).fields[39] for _ in range(500)]
                # A valid card of the same acquirer, on the same connection.
                assert (await peer.ask(request(10_000 + first))).fields[39] == "00"
        assert answers.count("14") == PROBES_BURST
        assert answers.count("59") == 5_000 - PROBES_BURST
        counts = harness.respondent.probes.counts
        assert (counts.unknown_cards, counts.limited) == (5_000, 5_000 - PROBES_BURST)


async def test_links_have_separate_limits_for_all_their_addresses(card_secrets: CardSecrets) -> None:
    probes = ProbeLimiter(lambda: 0.0, burst=1)
    answers: dict[str, list[str]] = {}
    for link in ("first", "second"):
        async with running_edge(card_secrets, probes=probes, link=link) as harness, harness.peer() as peer:
            sent = [request(stan, de2=unknown_number(stan)) for stan in (1, 2)]
            answers[link] = [(await peer.ask(each)).fields[39] for each in sent]
    assert answers == {"first": ["14", "59"], "second": ["14", "59"]}
    assert {source for source, _ in probes._buckets} == {"link first", "link second"}


async def test_answers_beyond_the_limit_are_delayed(card_secrets: CardSecrets) -> None:
    probes = ProbeLimiter(lambda: 0.0, burst=1)
    async with (
        running_edge(card_secrets, probes=probes, probe_delay_seconds=60.0) as harness,
        harness.peer() as peer,
    ):
        for stan in (1, 2):
            peer.send(request(stan, de2=unknown_number(stan)))
        peer.send(request(3))
        results = {
            answer.fields[11]: answer.fields[39] for answer in [await peer.receive() for _ in range(2)]
        }
        assert results == {"000001": "14", "000003": "00"}
        await until(lambda: harness.respondent._probe_delays.delayed == 1)


async def test_delayed_answer_leaves_at_the_deadline(card_secrets: CardSecrets) -> None:
    probes = ProbeLimiter(lambda: 0.0, burst=0)
    async with (
        running_edge(
            card_secrets, probes=probes, probe_delay_seconds=3_600.0, deadline_ms=DEADLINE_MS
        ) as harness,
        harness.peer() as peer,
    ):
        peer.send(request(1, de2=unknown_number(1)))
        await until(lambda: harness.respondent._probe_delays.delayed)
        advance(DEADLINE_MS / 1000)
        assert (await peer.receive()).fields[39] in {"59", "91"}
        assert harness.respondent._probe_delays.delayed == 0


async def test_declines_of_wrong_values_are_delayed_beyond_the_limit(card_secrets: CardSecrets) -> None:
    right = card_secrets.cvv2(PAN, 2029, 11, "1")
    wrong = write_private({"01": f"{(int(right) + 1) % 1000:03d}"})
    probes = ProbeLimiter(lambda: 0.0, burst=1)
    async with (
        running_edge(card_secrets, probes=probes, probe_delay_seconds=60.0) as harness,
        harness.peer() as peer,
    ):
        harness.owners.decide = lambda command: WireAnswer(
            "N7" if getattr(command, "cvv2", "") == "mismatch" else "00", command.id
        )
        assert (await peer.ask(request(1, de48=wrong))).fields[39] == "N7"
        peer.send(request(2, de48=wrong), request(3, de48=write_private({"01": right})))
        good = await peer.receive()
        assert (good.fields[11], good.fields[39]) == ("000003", "00")
        await until(lambda: len(harness.owners.authorizations) == 3)
        assert sorted(command.cvv2 for command in harness.owners.authorizations) == [
            "match",
            "mismatch",
            "mismatch",
        ]
        assert (probes.counts.wrong_values, probes.counts.limited) == (2, 1)
        assert harness.respondent._probe_delays.delayed == 1
