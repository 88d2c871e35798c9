"""PostgreSQL's primary is killed under load and its standby promoted: decisions resume, and none is lost."""

from __future__ import annotations

import asyncio
import random
import urllib.request
from pathlib import Path

import pytest

from ops.chaos.environment.postgres_pair import PostgresPair
from ops.chaos.failover import FailoverRig, drill
from tests.support.actors.outbox.waiting import eventually

SECONDS = 240.0
"""Limit of each wait. The drills' own limits are promises for an idle machine."""
POLL_SECONDS = 0.1
SAFE = 'stanchion_data_loss_possible{process="database"} 0.0\n'


@pytest.mark.timeout(900)
async def test_promoted_standby_has_every_acknowledged_decision(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for limit in ("PATIENCE_SECONDS", "LEFT_SECONDS_MAX"):
        monkeypatch.setattr(f"ops.chaos.failover.{limit}", SECONDS)
    async with FailoverRig(tmp_path, 4, random.randrange(1_000)) as rig:
        await rig.crowd.begin()
        await rig.approved_everywhere()
        await eventually(lambda: is_safe(rig), SECONDS)
        outcome = await drill(rig, PostgresPair.kill)
        assert outcome.broken == []
        await rig.crowd.end()
        findings = await rig.findings()
    assert [str(each) for each in findings if each.broken] == []
    assert sum(each.subjects for each in findings) > 0


async def is_safe(rig: FailoverRig) -> bool:
    # The figures of all processes cost some time of each.
    await asyncio.sleep(POLL_SECONDS)
    # In a thread: this loop forwards the bytes between the installation and the servers.
    return SAFE in await asyncio.to_thread(metrics, rig)


def metrics(rig: FailoverRig) -> str:
    with urllib.request.urlopen(rig.record["metrics_url"], timeout=10) as answer:
        return str(answer.read().decode())
