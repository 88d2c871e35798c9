"""A process that serves requests over a pipe: one JSON object per line in, one per line out.

It ends when the pipe closes, so no process outlives a killed benchmark. Messages can hold card numbers and
are neither logged nor stored."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import IO, Any, Final

import msgspec

Handler = Callable[..., Awaitable[Any]]

LINE_BYTES_MAX: Final = 64 * 1024 * 1024
"""One line holds all latencies of a slice."""


async def serve(handlers: Mapping[str, Handler]) -> None:
    """Answer ``{"do": name, "with": {…}}`` with ``{"answer": …}`` or ``{"error": …}`` until the pipe
    closes."""
    reader = asyncio.StreamReader(limit=LINE_BYTES_MAX)
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(os.dup(sys.stdin.fileno()), "rb")
    )
    answers = _private_stdout()
    while line := await reader.readline():
        request = msgspec.json.decode(line)
        try:
            answer = {"answer": await handlers[request["do"]](**request.get("with", {}))}
        except Exception as failure:  # noqa: BLE001 - the caller decides what a failure means
            answer = {"error": f"{request['do']}: {type(failure).__name__}: {failure}"}
        answers.write(msgspec.json.encode(answer) + b"\n")
        answers.flush()


def _private_stdout() -> IO[bytes]:
    """The channel for answers; standard output of libraries goes to stderr from now on."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return answers
