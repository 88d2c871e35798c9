"""``stanchion listen`` and ``stanchion events resend``, as the documentation shows them."""

from __future__ import annotations

import shlex
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

from tests.support.api.driver import Caller
from tests.support.integration.stack import Stack
from tests.support.ops.pages import fence

ROOT = Path(__file__).parents[2]
PAGE = "ops/docs/WEBHOOKS.md"
END_SECONDS_MAX = 240


def documented_arguments(page: str, section: str) -> list[str]:
    """The arguments of the command in a section of a page."""
    program, *arguments = shlex.split(fence(page, section, "sh"))
    assert program.endswith("stanchion")
    return arguments


def start(*arguments: str) -> subprocess.Popen[str]:
    """Start a ``stanchion`` command; its output can be read while it runs."""
    return subprocess.Popen(
        [sys.executable, "-m", "ops", *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def read_until(process: subprocess.Popen[str], wanted: str) -> str:
    """The output up to the line that contains ``wanted``."""
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if wanted in line:
            return "".join(lines)
    raise AssertionError(f"{wanted!r} was never printed: {lines}")


def assert_exit_status_0(process: subprocess.Popen[str]) -> None:
    """Read the rest of the output, because a closed pipe would make the command fail, and check its
    status."""
    output, _ = process.communicate(timeout=END_SECONDS_MAX)
    assert process.returncode == 0, output


async def test_listen_and_resend_as_documented(stack: Stack, demo: Caller) -> None:
    var_dir = str(stack.installation.var_dir)
    wanted = ("--type", "card.updated", "--type", "card.created")
    alone = documented_arguments(PAGE, "On your own machine")
    assert alone == documented_arguments("ops/docs/FEATURES.md", "Webhooks")
    with start(*alone, *wanted, "--fail", "1", "--var", var_dir) as listening:
        try:
            endpoint_id = read_until(listening, "Listening").partition("endpoint ")[2].partition(".")[0]
            began = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            card = await demo.funded_card()
            output = read_until(listening, "created_at")
            assert "card.created  signature verified, answered 500" in output
            assert f"id: {card['id']}" in output

            again = documented_arguments(PAGE, "Send again")
            for option, value in (
                ("--endpoint", endpoint_id),
                ("--since", began),
                ("--type", "card.created"),
            ):
                again[again.index(option) + 1] = value
            with start(*again, "--var", var_dir) as resending:
                read_until(resending, "will be delivered again")
                assert_exit_status_0(resending)
            output = read_until(listening, "(delivery 2 of this event)")
            assert "card.created  signature verified, answered 200" in output
            deliveries = (await demo.get(f"/v1/webhook-endpoints/{endpoint_id}/deliveries"))["data"]
            assert {delivery["redelivery"] for delivery in deliveries} == {True, False}
        finally:
            listening.send_signal(signal.SIGINT)
            assert_exit_status_0(listening)
    assert (await demo.send("GET", f"/v1/webhook-endpoints/{endpoint_id}")).status_code == 404
