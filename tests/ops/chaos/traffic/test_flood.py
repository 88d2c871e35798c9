"""More than can be decided: what is offered, approved and refused is told apart, and timed."""

from __future__ import annotations

import asyncio

from actors.network.custody import CardCustody
from actors.vault import Vault
from engine.replies import WireAnswer
from ops.chaos.traffic.flood import FloodConnection, FloodPhase, FloodTarget, p99
from ops.chaos.traffic.shoppers import Plastic
from tests.actors.network.support import CARD_ID, PAN, Harness, running_edge, until

LATE_SECONDS = 30.0
"""Beyond any machine's slowness; nobody waits for more than the last answer."""


def flood(harness: Harness) -> FloodConnection:
    return FloodConnection(FloodTarget(*harness.address, [Plastic(CARD_ID, PAN, "2911")]))


async def test_so_many_at_any_time(vault: Vault) -> None:
    async with running_edge(CardCustody(vault)) as harness:
        heard = await flood(harness).run(FloodPhase(seconds=0.2, in_flight=8, late_seconds=LATE_SECONDS))
    assert heard.offered >= 8
    assert heard.offered - 8 <= heard.approved <= heard.offered
    assert (heard.refused, heard.other, heard.unanswered, heard.refusal_ms_p99) == (0, 0, 0, 0.0)
    assert heard.approval_ms_p99 > 0


async def test_so_many_a_second_whatever_becomes_of_them(vault: Vault) -> None:
    """The edge has room for three, and its owners answer when everything is over."""
    async with running_edge(CardCustody(vault), open_max=3) as harness:
        harness.owners.gate.clear()
        phase = FloodPhase(seconds=0.2, per_second=200, prepare=40, late_seconds=LATE_SECONDS)
        flooding = asyncio.create_task(flood(harness).run(phase))
        await until(lambda: harness.edge.counts.shed == 37)
        harness.owners.gate.set()
        heard = await flooding
    assert (heard.offered, heard.refused, heard.other, heard.unanswered) == (40, 37, 0, 0)
    assert heard.approved <= 3
    assert heard.refusal_ms_p99 > 0
    assert heard.lag_ms_p99 > 0


async def test_other_answers_are_neither(vault: Vault) -> None:
    async with running_edge(CardCustody(vault)) as harness:
        harness.owners.decide = lambda command: WireAnswer("51", command.id)
        heard = await flood(harness).run(FloodPhase(seconds=0.1, in_flight=4, late_seconds=LATE_SECONDS))
    assert heard.other == heard.offered >= 4
    assert (heard.approved, heard.refused, heard.unanswered) == (0, 0, 0)


def test_the_slowest_hundredth() -> None:
    assert p99([]) == 0
    assert p99([float(number) for number in range(1000)]) == 990
