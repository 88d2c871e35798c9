"""PostgreSQL's primary is killed under load and its standby promoted: decisions resume, and none is lost."""

from __future__ import annotations

import random
import urllib.request
from pathlib import Path

import pytest

from ops.chaos.environment.postgres_pair import PostgresPair
from ops.chaos.failover import FailoverRig, drill
from tests.support.integration.stack import until


@pytest.mark.timeout(300)
async def test_promoted_standby_has_every_acknowledged_decision(tmp_path: Path) -> None:
    async with FailoverRig(tmp_path, 4, random.randrange(1_000)) as rig:
        await rig.crowd.begin()
        await rig.approved_everywhere()
        await until(lambda: f"{RISK} 0.0\n" in metrics(rig), "no failover can lose decisions")
        outcome = await drill(rig, PostgresPair.kill)
        assert outcome.broken == []
        await rig.crowd.end()
        findings = await rig.findings()
    assert [str(each) for each in findings if each.broken] == []
    assert sum(each.subjects for each in findings) > 0


RISK = 'stanchion_data_loss_possible{process="database"}'


def metrics(rig: FailoverRig) -> str:
    with urllib.request.urlopen(rig.record["metrics_url"], timeout=10) as answer:
        return str(answer.read().decode())
