"""A durable decision is one line of the log if the setting asks for it."""

from __future__ import annotations

from typing import Any

from structlog.testing import capture_logs

from actors.journal.contract import RejectedError
from actors.shards.decision_log import log_decision
from engine.commands import Authorize
from tests.support.actors.shards.support import FIRST, TestHost
from tests.support.engine.build import authorize, load


def spend(number: int, amount_minor: int = 100) -> Authorize:
    command = authorize(number, card_id=FIRST.id, amount_minor=amount_minor)
    assert isinstance(command, Authorize)
    return command


def decisions(lines: list[Any]) -> list[Any]:
    return [line for line in lines if line["event"] == "decision"]


async def test_each_durable_decision_is_one_line(host: TestHost) -> None:
    host.host._confirmation._on_durable = log_decision
    approved, declined = spend(1), spend(2, 10**9)
    with capture_logs() as lines:
        await host.execute(approved, declined, load(3, card_id=FIRST.id))
        await host.execute(approved)
    first, second = decisions(lines)
    assert (first["authorization_id"], first["decision"], first["approved_minor"]) == (
        approved.id,
        "approved",
        100,
    )
    assert (first["card_id"], first["amount_minor"], first["currency"]) == (FIRST.id, 100, "EUR")
    assert (first["log_level"], first["every"], first["trace"]) == ("info", True, approved.wire.rrn)
    assert (second["decision"], second["reason"], second["response_code"]) == (
        "declined",
        "insufficient_funds",
        "51",
    )


async def test_decision_of_a_failed_commit_is_logged_once(host: TestHost) -> None:
    host.host._confirmation._on_durable = log_decision
    host.faults.fail("during", "commit", RejectedError("a fault"))
    with capture_logs() as lines:
        await host.execute(spend(1))
    assert len(decisions(lines)) == 1


async def test_without_the_setting_there_is_no_line(host: TestHost) -> None:
    with capture_logs() as lines:
        await host.execute(spend(1))
    assert decisions(lines) == []
