"""The log entry of a fault in our own code contains the trace of the request."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from actors.submission import Submission
from engine.commands import Command
from engine.replies import NotExecuted
from tests.support.actors.shards.support import FIRST, PATIENCE_MS, TestHost
from tests.support.engine.build import authorize


async def test_failed_decision_logs_the_trace_of_its_request(
    host: TestHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_arguments: object) -> None:
        raise ZeroDivisionError("a value that must not be logged")

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
