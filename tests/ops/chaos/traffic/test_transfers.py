"""The checks of transfers under faults: each violation is found, and a real history has none."""

from __future__ import annotations

from pathlib import Path

import asyncpg
import pytest

from actors.settings import Settings
from actors.vault import Vault
from ops.chaos.traffic.transfers import Moved, Posted, TransferCallers, judge
from ops.embedded.ports import free_port
from tests.support.api.stack import installation, served


def moved(status: int | None = 201, reversals: tuple[int | None, ...] = ()) -> Moved:
    return Moved("ref", -30, bool(reversals), status, reversals)


@pytest.mark.parametrize(
    ("caller", "database"),
    [
        (moved(), Posted(1, 1, 0, -30)),
        (moved(None), Posted(0, 0, 0, 0)),
        (moved(None), Posted(1, 1, 0, -30)),
        (moved(409), Posted(0, 0, 0, 0)),
        (moved(reversals=(200, 409)), Posted(1, 1, 1, 0)),
        (moved(reversals=(None, None)), Posted(1, 1, 0, -30)),
        (moved(reversals=(None, 409)), Posted(1, 1, 1, 0)),
    ],
)
def test_true_answers_break_no_rule(caller: Moved, database: Posted) -> None:
    assert judge([caller], {"ref": database}) == []


@pytest.mark.parametrize(
    ("caller", "database"),
    [
        (moved(), Posted(0, 0, 0, 0)),
        (moved(), Posted(2, 2, 0, -60)),
        (moved(), Posted(1, 2, 0, -60)),
        (moved(), Posted(1, 1, 1, 0)),
        (moved(), Posted(1, 1, 0, 30)),
        (moved(None), Posted(2, 2, 0, -60)),
        (moved(reversals=(200, 200)), Posted(1, 1, 1, 0)),
        (moved(reversals=(200, 409)), Posted(1, 1, 0, -30)),
        (moved(reversals=(200, 409)), Posted(1, 1, 2, 30)),
        (moved(reversals=(None, None)), Posted(1, 1, 2, 30)),
    ],
)
def test_each_violation_is_found(caller: Moved, database: Posted) -> None:
    assert judge([caller], {"ref": database})


async def test_transfers_without_faults_are_answered_and_posted_once(
    database_url: str, tmp_path: Path
) -> None:
    settings = Settings.load(var_dir=tmp_path, database_url=database_url, iso8583_port=free_port())
    async with installation(settings, Vault.from_settings(settings)) as running:
        caller = await running.caller()
        card = await caller.funded_card("10.00")
        async with served(running.app) as base_url:
            callers = TransferCallers(base_url, caller.token, card["funding_account_id"])
            await callers.run(40)
        assert not [each for each in callers.moved if each.unanswered or each.status != 201]
        assert {each.reversals.count(200) for each in callers.moved if each.reverse} == {1}
        connection = await asyncpg.connect(database_url)
        try:
            assert await callers.broken(connection) == []
            reversed_ = "SELECT count(*) FROM transfers WHERE reversal_id IS NOT NULL"
            assert await connection.fetchval(reversed_) == 10
        finally:
            await connection.close()
