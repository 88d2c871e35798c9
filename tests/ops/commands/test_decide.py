"""The local decision endpoint: its behaviours, and a programme that it decides for."""

from __future__ import annotations

import asyncio
import io
import json
import re
import signal
import sys
import time
from asyncio.subprocess import PIPE, STDOUT, Process, create_subprocess_exec
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
import time_machine
from rich.console import Console

from actors.settings import Settings
from actors.vault import Vault
from engine.decision.delegation import EndpointResult, Question, question_body, read_answer
from engine.webhooks.signature import HEADER, sign
from ops.commands import decide as module
from ops.commands.decide import (
    PLAYGROUND_FILE,
    DecideError,
    DecisionEndpoint,
    decide,
    playground,
    seconds_left,
    switch,
)
from ops.commands.decision_behaviours import BEHAVIOURS, Behaviour
from ops.embedded.local_https import LocalHttpsError, Request, make_authority, with_local_egress
from ops.supervision.installation import RUN_FILE
from stanchion import Client, StanchionError
from tests.support.api.delegation import activity
from tests.support.api.stack import installation, served

ROOT = Path(__file__).parents[3]
SECRET = "decsec_secret"
SECONDS_MAX = 240.0
QUESTION = Question(
    authorization_id="019aa6f0-4f2c-7cc1-9a31-5b0f6f3f2a7e",
    operation="authorization",
    card_id="019aa6f0-4f2c-7cc1-9a31-5b0f6f3f2a00",
    amount_minor=4_000,
    currency="EUR",
    partial_allowed=False,
    mcc="5411",
    merchant_name="Grocer [bold]",
    merchant_country="IE",
    channel="pos",
    entry_mode=None,
    mit=False,
)
PARTLY = msgspec.structs.replace(QUESTION, partial_allowed=True)


def asked(question: Question = QUESTION, deadline_ms: int = 0, secret: str = SECRET) -> Request:
    """A question as a shard host sends it."""
    body = question_body(question, deadline_ms)
    return Request("POST", "/decide", {HEADER.lower(): sign(body, (secret,), int(time.time()))}, body)


def decider(behaviour: Behaviour, **options: Any) -> tuple[DecisionEndpoint, Callable[[], str]]:
    """An endpoint, and what it has printed."""
    printed = io.StringIO()
    console = Console(file=printed, soft_wrap=True, highlight=False)
    return DecisionEndpoint(console, behaviour, **({"secret": SECRET} | options)), printed.getvalue


@pytest.mark.parametrize(
    ("behaviour", "limit_minor", "question", "expected"),
    [
        ("approve", None, QUESTION, EndpointResult("approved")),
        ("approve", 4_000, QUESTION, EndpointResult("approved")),
        ("approve", 3_999, QUESTION, EndpointResult("declined")),
        ("approve", 3_999, PARTLY, EndpointResult("approved", 3_999)),
        ("approve", 0, PARTLY, EndpointResult("declined")),
        ("decline", None, QUESTION, EndpointResult("declined")),
        ("decline", 9_999, PARTLY, EndpointResult("declined")),
        ("slow", None, QUESTION, EndpointResult("approved")),
        ("garbage", None, QUESTION, EndpointResult(trigger="invalid_response")),
    ],
)
async def test_the_platform_interprets_each_behaviour(
    monkeypatch: pytest.MonkeyPatch,
    behaviour: Behaviour,
    limit_minor: int | None,
    question: Question,
    expected: EndpointResult,
) -> None:
    monkeypatch.setattr(module, "LATE_SECONDS", 0.0)
    ours, printed = decider(behaviour, approve_up_to_minor=limit_minor)
    answer = await ours.handle(asked(question))
    assert answer is not None
    assert read_answer(question, answer.status, answer.body) == expected
    assert "40.00 EUR at Grocer [bold] (IE), authorization" in printed()
    assert "signature verified" in printed()


async def test_behaviour_down_closes_the_connection() -> None:
    ours, printed = decider("down")
    assert await ours.handle(asked()) is None
    assert "closes the connection" in printed()


async def test_a_slow_answer_comes_after_its_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    ours, _ = decider("slow")
    with time_machine.travel("2026-11-21T10:00:10Z", tick=False):
        await ours.handle(asked(deadline_ms=int((time.time() + 60) * 1000)))
    await ours.handle(asked(deadline_ms=0))
    assert waited == [60 + module.LATE_SECONDS, module.LATE_SECONDS]


def test_seconds_left_until_a_deadline() -> None:
    at = datetime(2026, 11, 21, 10, 15, 30, tzinfo=UTC)
    assert seconds_left("2026-11-21T10:15:31.250Z", at.timestamp()) == pytest.approx(1.25)
    assert seconds_left("2026-11-21T10:15:29.000Z", at.timestamp()) == 0


@pytest.mark.parametrize(
    "request_",
    [
        Request("POST", "/", {}, asked().body),
        Request("POST", "/", asked().headers, asked().body + b" "),
        asked(secret="another"),
    ],
    ids=["unsigned", "altered", "another's"],
)
async def test_question_without_a_valid_signature_is_refused_and_not_shown(request_: Request) -> None:
    ours, printed = decider("approve")
    answer = await ours.handle(request_)
    assert answer is not None
    assert answer.status == 400
    assert "refused" in printed()
    assert "40.00" not in printed()
    # Without a secret signatures are not checked.
    ours.secret = None
    answer = await ours.handle(request_)
    assert answer is not None
    assert answer.status == 200
    assert "signature not checked" in printed()


def test_a_line_changes_the_behaviour() -> None:
    ours, printed = decider("approve")
    console = Console(file=io.StringIO())
    for line, behaviour in (
        ("down\n", "down"),
        (" De\n", "decline"),
        ("d\n", "decline"),
        ("\n", "decline"),
        ("x", "decline"),
    ):
        switch(ours, line, console)
        assert ours.behaviour == behaviour
    assert not printed()
    assert len({behaviour[:2] for behaviour in BEHAVIOURS}) == len(BEHAVIOURS)


def test_invalid_arguments_are_one_line(tmp_path: Path) -> None:
    with pytest.raises(DecideError, match="amount like"):
        decide(tmp_path, "approve", approve_up_to="a lot")
    with pytest.raises(StanchionError, match="no installation runs in that folder"):
        decide(tmp_path, "approve")
    make_authority(tmp_path)
    owner = {"mode": "test", "role": "admin", "client_id": "a", "client_secret": "b"}
    record = {"base_url": "http://127.0.0.1:1", "tenants": [owner], "egress_ca_file": None}
    (tmp_path / RUN_FILE).write_text(json.dumps(record))
    with pytest.raises(LocalHttpsError, match="does not trust local receivers"):
        decide(tmp_path, "approve")


@asynccontextmanager
async def deciding(var_dir: Path, *options: str) -> AsyncIterator[tuple[str, Process]]:
    """``stanchion decide`` as a process, ended by Ctrl-C; yields its greeting and the process."""
    command = (sys.executable, "-m", "ops", "decide", "--var", str(var_dir), *options)
    process = await create_subprocess_exec(*command, cwd=ROOT, stdout=PIPE, stderr=STDOUT, stdin=PIPE)
    assert process.stdout is not None
    greeting = ""
    try:
        async with asyncio.timeout(SECONDS_MAX):
            while "Ctrl-C stops" not in greeting:
                line = (await process.stdout.readline()).decode()
                assert line, greeting
                greeting += line
        yield greeting, process
        process.send_signal(signal.SIGINT)
        assert await asyncio.wait_for(process.wait(), SECONDS_MAX) == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def test_a_programme_is_decided_for_until_ctrl_c(settings: Settings, vault: Vault) -> None:
    settings = with_local_egress(settings)
    async with installation(settings, vault) as running, served(running.app) as address:
        caller = await running.caller()
        credentials = asdict(caller.credentials)
        record = {
            "base_url": address,
            "tenants": [credentials | {"mode": "test", "role": "admin"}],
            "egress_ca_file": str(settings.egress_ca_file),
        }
        (settings.var_dir / RUN_FILE).write_text(json.dumps(record))
        async with deciding(settings.var_dir, "--approve-up-to", "30.00") as (greeting, process):
            [card_id] = re.findall(r"Its card (\S+) ", greeting)
            card = {"id": card_id, "currency": "EUR"}
            sale = await caller.spend(card, "30.00")
            over = await caller.spend(card, "30.01")
            assert (sale["decision"], over["decline_reason"]) == ("approved", "programme_declined")
            transaction = await caller.get(f"/v1/transactions/{sale['transaction_id']}")
            assert transaction["decided_by"] == "programme"
            assert process.stdout is not None
            printed = (await process.stdout.readline() + await process.stdout.readline()).decode()
            assert "30.00 EUR at Corner Shop (IE)" in printed
            assert "signature verified; approved" in printed
        programme_id = transaction["programme_id"]
        programme = await caller.get(f"/v1/programs/{programme_id}")
        assert (programme["decisioning"], programme["decision_url"]) == ("platform", None)
        # The next run uses the same programme, secret and card.
        file = settings.var_dir / PLAYGROUND_FILE
        with Client(address, credentials["client_id"], credentials["client_secret"]) as client:
            found = await asyncio.to_thread(playground, client, file)
        assert (found.programme_id, found.card_id) == (programme_id, card_id)
        assert found.secret is not None
        assert found.secret not in greeting
        arguments = ("--programme", programme_id, "--answer", "down")
        async with deciding(settings.var_dir, *arguments) as (second_greeting, _):
            assert "signatures are not checked" in second_greeting
            assert (await caller.spend(card, "20.00"))["decision"] == "approved"
        [entry] = await activity(caller, programme_id)
        assert (entry["rule"], entry["trigger"]) == ("within_ceilings", "connection_error")
