"""Back-tests as Ray tasks: processes of their own, with a low priority, also after a server's death."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from engine.limits import BACKTEST_NICENESS
from tests.support.api.driver import Caller
from tests.support.integration.stack import SECONDS_MAX, Stack, until

NO_GAMBLING = {"controls": {"add": [{"kind": "mcc_deny", "values": ["7995"]}]}}


def request_for(card: Any) -> dict[str, Any]:
    now = datetime.now(UTC)
    begin, end = ((now + timedelta(days=days)).strftime("%Y-%m-%dT%H:%M:%SZ") for days in (-1, 1))
    scope = {"type": "programme", "id": card["programme_id"]}
    return {"scope": scope, "from": begin, "to": end, "change": NO_GAMBLING}


async def ended(demo: Caller, backtest_id: str) -> Any:
    """The back-test once it has ended."""
    async with asyncio.timeout(SECONDS_MAX):
        while True:
            found = await demo.get(f"/v1/backtests/{backtest_id}")
            if found["state"] not in ("queued", "running"):
                return found
            await asyncio.sleep(0.1)


def tasks_of(stack: Stack) -> list[int]:
    """The processes of tasks."""
    return [pid for pid, command in stack.descendants().items() if command.startswith("stanchion: task")]


async def test_tasks_run_with_a_low_priority_and_end(stack: Stack, demo: Caller) -> None:
    card = await demo.funded_card("100.00")
    await demo.spend(card, "80.00", mcc="7995")
    await demo.spend(card, "50.00")
    created = await demo.post("/v1/backtests", request_for(card), 202)
    done = await ended(demo, created["id"])
    assert (done["state"], done["baseline"]["mismatches"]) == ("done", 0), done
    assert done["flips"]["approved_to_declined"] == {"count": 1, "amount": "80.00"}
    assert done["flips"]["declined_to_approved"] == {"count": 1, "amount": "50.00"}
    log = (stack.installation.var_dir / "log/stanchion.jsonl").read_text().splitlines()
    started = [line for line in map(json.loads, log) if line["event"] == "task_started"]
    assert started[-1]["niceness"] == BACKTEST_NICENESS
    assert started[-1]["pid"] not in stack.processes().values()
    await until(lambda: not tasks_of(stack), "the tasks end")


@pytest.mark.timeout(2 * SECONDS_MAX + 60)
async def test_backtest_survives_the_death_of_its_api_server(stack: Stack, demo: Caller) -> None:
    card = await demo.funded_card("100.00")
    await demo.spend(card, "80.00", mcc="7995")
    created = await demo.post("/v1/backtests", request_for(card), 202)
    pid = await stack.pid("api-0")
    os.kill(pid, signal.SIGKILL)
    await until(lambda: stack.processes().get("api-0", pid) != pid, "there is a new API server")
    await until(stack.healthy, "it serves")
    done = await ended(demo, created["id"])
    assert (done["state"], done["flips"]["approved_to_declined"]["count"]) == ("done", 1), done
