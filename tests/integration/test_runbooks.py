"""Run the commands, queries and requests of the runbooks against the installation."""

from __future__ import annotations

import asyncio
import re

from actors.settings import Settings
from tests.support.api.driver import Caller
from tests.support.integration.stack import Stack
from tests.support.ops.pages import pages, spans

SPANS = {span for page in pages() if page.startswith("ops/runbooks/") for span in spans(page)}
TABLE = "pg_stat_activity"


async def test_health_pages_answer_the_commands_of_the_runbooks(stack: Stack) -> None:
    usual = f"http://127.0.0.1:{Settings.defaults()['metrics_port']}/"
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


async def test_queries_to_postgresql_run(stack: Stack) -> None:
    named = {span for span in SPANS if TABLE in span}
    assert len(named) == 3
    for span in named:
        found = await stack.fetch(span if span.startswith("SELECT ") else f"SELECT * FROM {span}")
        # A healthy server has no long transactions, so this query may find no row.
        assert found or "backend_xid" in span, span
    for setting in ("fsync", "max_connections"):
        assert setting in SPANS
        await stack.fetch(f"SHOW {setting}")


async def test_every_rest_operation_is_in_the_api_description(stack: Stack, demo: Caller) -> None:
    described = (await demo.get("/docs/openapi.json"))["paths"]
    named = {span for span in SPANS if span.startswith("GET /v1/")}
    assert len(named) > 2
    assert {(path, method.lower()) for method, path in map(str.split, named)} <= {
        (path, method) for path, methods in described.items() for method in methods
    }


def test_runbooks_have_no_other_sql_statements() -> None:
    assert not [
        span for span in SPANS if re.match("(?i)(select|update|delete|alter) ", span) and TABLE not in span
    ]
