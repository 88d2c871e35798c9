"""The processes that a benchmark starts: the installation, and helpers that take requests over a pipe.

All of them end with the benchmark: helpers end when their pipe closes, the installation when it receives
SIGTERM.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import IO, Any, Final

import msgspec

START_SECONDS_MAX: Final = 120.0
STOP_SECONDS_MAX: Final = 90.0
ANSWER_SECONDS_MAX: Final = 120.0
LINE_BYTES_MAX: Final = 64 * 1024 * 1024
_PREFIX: Final = "STANCHION_"


class ChildError(Exception):
    """A child process failed. The message is one line."""


def one_line(failure: BaseException) -> str:
    """The failure in one line, followed by its cause: a process that fails to start may also fail to stop."""
    words = str(failure) or type(failure).__name__
    before = None if failure.__suppress_context__ else failure.__context__
    return words if before is None else f"{words} (after: {one_line(before)})"


class Version(msgspec.Struct, frozen=True):
    """The code that a child process runs."""

    command: tuple[str, ...]
    """Python with its options, up to ``-m``."""
    folder: Path | None = None
    """The working folder; ``None``: that of this process."""
    environment: dict[str, str] = {}


THIS: Final = Version((sys.executable, "-m"))
"""The code of this process."""


class Installation:
    """``stanchion up`` on free ports and a folder of its own. ``start``, then ``stop``; a second ``stop`` is
    harmless."""

    def __init__(self, var_dir: Path, environment: dict[str, str], version: Version = THIS) -> None:
        """``environment``: variables on top of this process's own."""
        self._var_dir = var_dir
        self._environment = environment
        self._version = version
        self._log = var_dir.with_name(f"{var_dir.name}.log")
        self._process: asyncio.subprocess.Process | None = None

    @property
    def pid(self) -> int:
        """Process id of the supervisor, the ancestor of every server process."""
        assert self._process is not None, "started before"
        return self._process.pid

    async def start(self) -> dict[str, Any]:
        """Start it and wait until it serves; returns the content of ``run.json``. Raises ChildError."""
        # Without automatic clearing: presentments of one slice would otherwise run during the next. A limit
        # of requests would only measure itself.
        settings = {f"{_PREFIX}AUTO_CLEAR_SECONDS": "0", f"{_PREFIX}RATE_TEST_PER_SECOND": "1000000"}
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *self._version.command,
                *("ops", "up", "--ports", "auto", "--var", str(self._var_dir)),
                stdout=log,
                stderr=log,
                cwd=self._version.folder,
                env=inherited() | self._version.environment | settings | self._environment,
                # A Ctrl-C at the terminal is for the benchmark, which then stops the installation.
                start_new_session=True,
            )
        run_file = self._var_dir / "run.json"
        try:
            async with asyncio.timeout(START_SECONDS_MAX):
                while not run_file.exists():
                    if self._process.returncode is not None:
                        raise ChildError(f"the installation did not start: {self._last_words()}")
                    await asyncio.sleep(0.05)
        except TimeoutError:
            raise ChildError(f"the installation did not start in time: {self._last_words()}") from None
        record: dict[str, Any] = json.loads(run_file.read_bytes())
        return record

    async def stop(self) -> None:
        """Stop it and wait for its end. Raises ChildError if it had to be killed or failed."""
        process, self._process = self._process, None
        if process is None or process.returncode is not None:
            return
        process.send_signal(signal.SIGTERM)
        try:
            status = await asyncio.wait_for(process.wait(), STOP_SECONDS_MAX)
        except TimeoutError:
            process.kill()
            raise ChildError("the installation did not end and was killed") from None
        if status != 0:
            raise ChildError(f"the installation ended with status {status}: {self._last_words()}")

    def _last_words(self) -> str:
        lines = [line for line in self._log.read_text("utf-8", "replace").splitlines() if line.strip()]
        return lines[-1].strip() if lines else "no output"


class Helper:
    """A process that answers requests over its pipe, one at a time (``ops.bench.pipe`` is the other end)."""

    def __init__(
        self, environment: dict[str, str], module: str, *arguments: str, version: Version = THIS
    ) -> None:
        """``environment``: variables on top of this process's own."""
        self._environment = version.environment | environment
        self._command = (*version.command, module, *arguments)
        self._folder = version.folder
        self._module = module
        self._process: asyncio.subprocess.Process | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None, "started before"
        return self._process.pid

    async def start(self, errors: IO[bytes]) -> None:
        """Start it; its standard error goes to ``errors``."""
        self._process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=errors,
            cwd=self._folder,
            env=inherited() | self._environment,
            limit=LINE_BYTES_MAX,
            start_new_session=True,
        )

    async def ask(self, do: str, **arguments: Any) -> Any:
        """The answer to one request. Raises ChildError."""
        process = self._process
        assert process is not None, "started before"
        assert process.stdin is not None, "a pipe was asked for"
        assert process.stdout is not None, "a pipe was asked for"
        process.stdin.write(msgspec.json.encode({"do": do, "with": arguments}) + b"\n")
        try:
            line = await asyncio.wait_for(process.stdout.readline(), ANSWER_SECONDS_MAX)
        except TimeoutError:
            raise ChildError(f"{self._module} has not answered {do}") from None
        if not line:
            raise ChildError(f"{self._module} ended while it was asked {do}")
        answer = msgspec.json.decode(line)
        if "error" in answer:
            raise ChildError(f"{self._module}: {answer['error']}")
        return answer["answer"]

    async def stop(self) -> None:
        """Close its pipe, which ends it. Safe to call twice."""
        process, self._process = self._process, None
        if process is None:
            return
        if process.stdin is not None:
            process.stdin.close()
        try:
            await asyncio.wait_for(process.wait(), STOP_SECONDS_MAX)
        except TimeoutError:
            process.kill()
            await process.wait()


def inherited() -> dict[str, str]:
    """This process's environment without Stanchion's settings, so that a developer's own do not leak in."""
    return {name: value for name, value in os.environ.items() if not name.startswith(_PREFIX)}
