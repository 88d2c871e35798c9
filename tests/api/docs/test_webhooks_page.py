"""`ops/docs/WEBHOOKS.md`: the printed commands work, and the figures equal the constants in the code."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.limits import EVENT_RETENTION_DAYS, WEBHOOK_ENDPOINTS_MAX, WEBHOOK_TIMEOUT_SECONDS
from engine.webhooks.schedule import OFFSETS_SECONDS
from engine.webhooks.signature import HEADER, secret_of, sign
from tests.support.api.driver import Caller
from tests.support.api.stack import Installation, served

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "ops/docs/WEBHOOKS.md").read_text("utf-8")
SECRET = secret_of(b"p" * 32)
BODY = b'{"id":"019aa6f0","data":{"name":"caf\xc3\xa9"}}'


def blocks(language: str) -> list[str]:
    """The code blocks of the page in ``language``."""
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


async def run(script: str, folder: Path, **variables: str) -> str:
    """The output of ``script`` in bash, with the project's commands on the PATH."""
    environment = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", **variables}
    process = await asyncio.create_subprocess_exec(
        "bash", "-euo", "pipefail", "-c", script, cwd=folder, env=environment, stdout=asyncio.subprocess.PIPE
    )
    printed, _ = await process.communicate()
    assert process.returncode == 0, printed
    return printed.decode()


@pytest.fixture
def is_genuine() -> Callable[[str, bytes, str], bool]:
    """The verifier printed on the page."""
    (code,) = blocks("python")
    names: dict[str, Callable[[str, bytes, str], bool]] = {}
    exec(code, names)
    return names["is_genuine"]


def test_printed_verifier_accepts_genuine_signatures_only(
    is_genuine: Callable[[str, bytes, str], bool],
) -> None:
    now = int(time.time())
    other = secret_of(b"q" * 32)
    assert is_genuine(sign(BODY, [SECRET], now), BODY, SECRET)
    assert is_genuine(sign(BODY, [other, SECRET], now), BODY, SECRET)
    for header in (
        sign(BODY, [other], now),
        sign(BODY + b" ", [SECRET], now),
        sign(BODY, [SECRET], now - 400),
        sign(BODY, [SECRET], now + 400),
        sign(BODY, [SECRET], now - 400).replace(f"t={now - 400}", f"t={now}"),
        f"t={now}",
        f"t={now},v1=é",
        "t=now,v1=",
        "",
    ):
        assert not is_genuine(header, BODY, SECRET), header


async def test_printed_shell_commands_work(running: Installation, acme: Caller, tmp_path: Path) -> None:
    subscribe, verify = blocks("bash")
    async with served(running.app) as base_url:
        made = json.loads(await run(subscribe, tmp_path, BASE=base_url, TOKEN=acme.token))
    assert made["secret"].startswith("whsec_")
    (tmp_path / "body.json").write_bytes(BODY)
    header = sign(BODY, [made["secret"]], 1_700_000_000)
    assert await run(verify, tmp_path, HEADER=header, SECRET=made["secret"]) == "The signature is good.\n"


def test_figures_and_header_name_equal_the_code() -> None:
    row = next(line for line in PAGE.splitlines() if line.startswith("| after the first"))
    units = {"minute": 60, "minutes": 60, "hours": 3_600}
    told = [0] + [int(number) * units[unit] for number, unit in re.findall(r"(\d+) (\w+)", row)]
    assert tuple(told) == OFFSETS_SECONDS
    assert f"`{HEADER}: t=" in PAGE
    assert f"within {WEBHOOK_TIMEOUT_SECONDS} seconds" in PAGE
    assert f"at most {WEBHOOK_ENDPOINTS_MAX} endpoints" in PAGE
    assert f"kept for {EVENT_RETENTION_DAYS} days" in PAGE
