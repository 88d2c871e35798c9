"""Every reply and every failure has an answer."""

from __future__ import annotations

import asyncio

import pytest

from engine.replies import NotExecuted, Problem, Reply
from tests.support.actors.network.support import Harness, outcome_for_all, request

# Every reply and every exception of a submission.
REPLIES: list[tuple[Reply | BaseException, str]] = [
    (NotExecuted("unavailable"), "91"),
    (NotExecuted("overloaded"), "91"),
    (NotExecuted("deadline"), "91"),
    (NotExecuted("faulty"), "96"),
    (NotExecuted("key_reused"), "94"),
    (Problem(404, "not-found", ""), "96"),
    (ConnectionResetError(), "91"),
    (TimeoutError(), "91"),
    (MemoryError(), "91"),
    (RuntimeError("4111111111111111"), "96"),
    (asyncio.CancelledError(), "91"),
]


@pytest.mark.parametrize(("outcome", "code"), REPLIES, ids=lambda outcome: repr(outcome)[:40])
async def test_every_reply_and_error_has_a_response_code(
    harness: Harness, outcome: Reply | BaseException, code: str
) -> None:
    harness.owners.decide = outcome_for_all(outcome)
    async with harness.peer() as peer:
        assert (await peer.ask(request())).fields[39] == code
