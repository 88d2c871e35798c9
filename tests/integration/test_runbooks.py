"""What the runbooks have somebody type who was woken up, typed beside a running installation."""

from __future__ import annotations

import asyncio
import re

from actors.settings import Settings
from tests.api.driver import Caller
from tests.integration.stack import Stack
from tests.ops.pages import pages, spans

SPANS = {span for page in pages() if page.startswith("ops/runbooks/") for span in spans(page)}
TABLE = "pg_stat_activity"


async def test_health_pages_answer_the_commands_of_the_runbooks(stack: Stack) -> None:
    usual = f"http://127.0.0.1:{Settings.model_fields['metrics_port'].default}/"
    port = stack.record["metrics_url"].removesuffix("metrics")
    commands = [span for span in SPANS if span.startswith("curl ")]
    answers = set()
    for command in commands:
        assert usual in command
        shell = await asyncio.create_subprocess_shell(
            command.replace(usual, port), stdout=asyncio.subprocess.PIPE
        )
        answers.add((await shell.communicate())[0])
    assert answers == {b"ok\n", b"ready\n"}


async def test_what_is_asked_of_postgresql_has_an_answer(stack: Stack) -> None:
    asked = {span for span in SPANS if TABLE in span}
    assert len(asked) == 3
    for span in asked:
        found = await stack.fetch(span if span.startswith("SELECT ") else f"SELECT * FROM {span}")
        # Long transactions of somebody else are for a bad day.
        assert found or "backend_xid" in span, span
    for setting in ("fsync", "max_connections"):
        assert setting in SPANS
        await stack.fetch(f"SHOW {setting}")


async def test_every_operation_is_in_the_description(stack: Stack, demo: Caller) -> None:
    described = (await demo.get("/docs/openapi.json"))["paths"]
    asked = {span for span in SPANS if span.startswith("GET /v1/")}
    assert len(asked) > 2
    assert {(path, method.lower()) for method, path in map(str.split, asked)} <= {
        (path, method) for path, methods in described.items() for method in methods
    }


def test_nothing_else_is_asked_of_postgresql() -> None:
    assert not [
        span for span in SPANS if re.match("(?i)(select|update|delete|alter) ", span) and TABLE not in span
    ]
