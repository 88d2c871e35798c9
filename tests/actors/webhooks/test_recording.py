"""The recorder writes results in batches, retries while the database is away, and gives up after a limit."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from actors.database import DatabaseUnavailableError
from actors.webhooks import recording
from actors.webhooks.delivery import AttemptResult, unanswered
from actors.webhooks.recording import AttemptRecorder
from tests.support.actors.webhooks.support import a_lease


class Table:
    """Records results after ``failures`` failures."""

    def __init__(self, failures: int = 0) -> None:
        self.batches: list[list[AttemptResult]] = []
        self.done: list[AttemptResult] = []
        self._failures = failures

    async def record(self, results: Sequence[AttemptResult]) -> None:
        if self._failures:
            self._failures -= 1
            raise DatabaseUnavailableError("away")
        self.batches.append(list(results))


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "_PAUSE_SECONDS_MIN", 0.0)
    monkeypatch.setattr(recording, "TRIES_MAX", 3)


@pytest.mark.parametrize(("failures", "recorded"), [(0, 2), (2, 2), (3, 0)])
async def test_results_are_recorded_or_given_up_and_reported_as_done(failures: int, recorded: int) -> None:
    table = Table(failures)
    recorder = AttemptRecorder(table.record, table.done.extend)
    results = [unanswered(a_lease(number), 1, "timeout") for number in (1, 2)]
    for result in results:
        recorder.add(result)
    recorder.skip_pauses()
    await recorder.drain()
    assert table.done == results
    assert sum(len(batch) for batch in table.batches) == recorded
    assert recorder.unrecorded == len(results) - recorded
