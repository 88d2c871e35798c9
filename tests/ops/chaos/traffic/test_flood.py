"""The flood generator counts and times offered, approved and refused authorizations."""

from __future__ import annotations

import asyncio

from actors.network.card_secrets import CardSecrets
from actors.vault import Vault
from engine.replies import WireAnswer
from ops.chaos.traffic.flood import FloodConnection, FloodPhase, FloodTarget, p99
from ops.chaos.traffic.shoppers import Plastic
from tests.support.actors.network.support import CARD_ID, PAN, Harness, running_edge, until

LATE_SECONDS = 30.0
"""Longer than any machine needs; the tests wait only for the last answer."""


def flood(harness: Harness) -> FloodConnection:
    return FloodConnection(FloodTarget(*harness.address, [Plastic(CARD_ID, PAN, "2911")]))


async def test_a_fixed_number_in_flight(vault: Vault) -> None:
    async with running_edge(CardSecrets(vault)) as harness:
        result = await flood(harness).run(FloodPhase(seconds=0.2, in_flight=8, late_seconds=LATE_SECONDS))
    assert result.offered >= 8
    assert result.offered - 8 <= result.approved <= result.offered
    assert (result.refused, result.other, result.unanswered, result.refusal_ms_p99) == (0, 0, 0, 0.0)
    assert result.approval_ms_p99 > 0


async def test_a_fixed_rate_does_not_wait_for_answers(vault: Vault) -> None:
    """The edge admits three requests, and their owners answer after the phase."""
    async with running_edge(CardSecrets(vault), open_max=3) as harness:
        harness.owners.gate.clear()
        phase = FloodPhase(seconds=0.2, per_second=200, prepare=40, late_seconds=LATE_SECONDS)
        flooding = asyncio.create_task(flood(harness).run(phase))
        await until(lambda: harness.edge.counts.shed == 37)
        harness.owners.gate.set()
        result = await flooding
    assert (result.offered, result.refused, result.other, result.unanswered) == (40, 37, 0, 0)
    assert result.approved <= 3
    assert result.refusal_ms_p99 > 0
    assert result.lag_ms_p99 > 0


async def test_declines_count_neither_as_approved_nor_as_refused(vault: Vault) -> None:
    async with running_edge(CardSecrets(vault)) as harness:
        harness.owners.decide = lambda command: WireAnswer("51", command.id)
        result = await flood(harness).run(FloodPhase(seconds=0.1, in_flight=4, late_seconds=LATE_SECONDS))
    assert result.other == result.offered >= 4
    assert (result.approved, result.refused, result.unanswered) == (0, 0, 0)


def test_p99_is_the_slowest_hundredth() -> None:
    assert p99([]) == 0
    assert p99([float(number) for number in range(1000)]) == 990
