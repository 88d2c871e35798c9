"""``stanchion listen`` and ``stanchion events resend`` beside a running installation, as pages print them."""

from __future__ import annotations

import shlex
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

from tests.api.driver import Caller
from tests.integration.stack import Stack
from tests.ops.pages import fence

ROOT = Path(__file__).parents[2]
PAGE = "ops/docs/WEBHOOKS.md"
END_SECONDS_MAX = 60


def printed(page: str, section: str) -> list[str]:
    """The arguments of the one command that a section shows."""
    program, *arguments = shlex.split(fence(page, section, "sh"))
    assert program.endswith("stanchion")
    return arguments


def start(*arguments: str) -> subprocess.Popen[str]:
    """A ``stanchion`` command whose output one can read while it runs."""
    return subprocess.Popen(
        [sys.executable, "-m", "ops", *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def read_until(process: subprocess.Popen[str], wanted: str) -> str:
    """What it prints, up to the line that holds ``wanted``."""
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if wanted in line:
            return "".join(lines)
    raise AssertionError(f"{wanted!r} was never printed: {lines}")


def ended_well(process: subprocess.Popen[str]) -> None:
    """It ends, and is heard to the end: a command that nobody listens to any more fails."""
    said, _ = process.communicate(timeout=END_SECONDS_MAX)
    assert process.returncode == 0, said


async def test_a_receiver_on_the_same_machine(stack: Stack, demo: Caller) -> None:
    var_dir = str(stack.installation.var_dir)
    wanted = ("--type", "card.updated", "--type", "card.created")
    alone = printed(PAGE, "On your own machine")
    assert alone == printed("README.md", "Webhooks")
    with start(*alone, *wanted, "--fail", "1", "--var", var_dir) as listening:
        try:
            endpoint_id = read_until(listening, "Listening").partition("endpoint ")[2].partition(".")[0]
            began = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            card = await demo.funded_card()
            told = read_until(listening, "created_at")
            assert "card.created  signature verified, answered 500" in told
            assert f"id: {card['id']}" in told

            again = printed(PAGE, "Send again")
            for option, value in (
                ("--endpoint", endpoint_id),
                ("--since", began),
                ("--type", "card.created"),
            ):
                again[again.index(option) + 1] = value
            with start(*again, "--var", var_dir) as resending:
                read_until(resending, "will be delivered again")
                ended_well(resending)
            told = read_until(listening, "(delivery 2 of this event)")
            assert "card.created  signature verified, answered 200" in told
            deliveries = (await demo.get(f"/v1/webhook-endpoints/{endpoint_id}/deliveries"))["data"]
            assert {delivery["redelivery"] for delivery in deliveries} == {True, False}
        finally:
            listening.send_signal(signal.SIGINT)
            ended_well(listening)
    assert (await demo.send("GET", f"/v1/webhook-endpoints/{endpoint_id}")).status_code == 404
