"""A fault of ours is told with the name that the request has had since it came in."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from actors.submission import Submission
from engine.commands import Command
from engine.replies import NotExecuted
from tests.actors.shards.support import FIRST, PATIENCE_MS, TestHost
from tests.engine.build import authorize


async def test_a_decision_that_fails_names_its_request(
    host: TestHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_arguments: object) -> None:
        raise ZeroDivisionError("a value that nobody must read")

    command: Command = authorize(1, card_id=FIRST.id)
    monkeypatch.setattr(host.host.decider, "decide", fail)
    with capture_logs() as lines:
        (reply,) = await host.host.execute([Submission(command, PATIENCE_MS, trace="request-1")])
    assert isinstance(reply, NotExecuted)
    faults = [line for line in lines if line["event"] == "decision_fault"]
    assert faults
    for line in faults:
        assert (line["trace"], line["id"], line["command"]) == ("request-1", command.id, "Authorize")
        assert isinstance(line["exc_info"], ZeroDivisionError)
