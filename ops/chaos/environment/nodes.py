"""A Ray cluster of several nodes on one machine: nodes join, leave, and die with everything on them.

Each node is a shell into which the lines of CLUSTER.md are typed (``ops.chaos.environment.handbook``), with what it takes
to have several on one machine. Where the kernel lets us, the processes of a node that joins see each other
alone, as on a machine of their own: ``stanchion drain`` then finds its node by itself, and ``ray stop`` ends
that one and no other. Nodes of one machine reach each other through Ray alone, as those of different machines
do.
"""

from __future__ import annotations

import os
import re
import secrets
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from ops.chaos.environment.handbook import filled, handbook
from ops.chaos.environment.processes import descendants, gone, send_signal

START_SECONDS_MAX: Final = 60.0
START_ATTEMPTS: Final = 3
"""Ray gives a node up that has not begun after 30 s, which happens on a machine that is busy."""
TYPED_SECONDS_MAX: Final = 180.0
END_SECONDS_MAX: Final = 20.0
POLL_SECONDS: Final = 0.05
STORE_BYTES: Final = 128 * 1024 * 1024

APART: Final = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
QUIET: Final = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_event_stats": "0"}
ON_ONE_MACHINE: Final = (
    f"--block --node-ip-address=127.0.0.1 --object-store-memory={STORE_BYTES}"
    " --min-worker-port=0 --max-worker-port=0 --disable-usage-stats --log-color=false"
)
_STARTED: Final = "Ray runtime started"
_ENDED: Final = "the node has ended"
_NODE_ID: Final = re.compile(r"--node_id=(\w+)")


class NodeError(Exception):
    """A node did not start, or a line that was typed on it failed. The message is one line."""


def can_be_apart() -> bool:
    """Whether processes can have a process table of their own here."""
    try:
        return subprocess.run([*APART, "true"], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


class RayNode:
    """One node: a shell and all below it. ``leave`` and ``kill`` twice are harmless."""

    def __init__(self, process: subprocess.Popen[bytes], said: Path | None = None) -> None:
        """``said``: where the shell's output goes, for a node at which something is typed."""
        self._process = process
        self._said = said

    @property
    def pids(self) -> list[int]:
        """The node's processes, its workers among them."""
        return descendants(self._process.pid)

    @property
    def id(self) -> str:
        """What Ray calls the node. Raises NodeError when there is none."""
        for pid in self.pids:
            with suppress(OSError):
                if found := _NODE_ID.search(Path(f"/proc/{pid}/cmdline").read_text("utf-8", "replace")):
                    return found[1]
        raise NodeError("there is no raylet")

    def type(self, line: str) -> str:
        """What ``line`` prints in the node's shell. Raises NodeError when it fails or does not end."""
        stdin, said = self._process.stdin, self._said
        assert stdin is not None
        assert said is not None, "a node at which something is typed"
        begin, mark = said.stat().st_size, f"end-of-{secrets.token_hex(4)}"
        try:
            stdin.write(f"{line}\necho {mark} $?\n".encode())
            stdin.flush()
        except (OSError, ValueError):
            raise NodeError("the node's shell has ended") from None
        deadline = time.monotonic() + TYPED_SECONDS_MAX
        while time.monotonic() < deadline and not gone(self._process.pid):
            printed = said.read_bytes()[begin:].decode("utf-8", "replace")
            if end := re.search(rf"^{mark} (\d+)$", printed, re.MULTILINE):
                if end[1] != "0":
                    raise NodeError(f"status {end[1]} of: {line}; see {said}")
                return printed[: end.start()]
            time.sleep(POLL_SECONDS)
        raise NodeError(f"it does not end: {line}; see {said}")

    def kill(self) -> int:
        """End everything at once, as a power cut would; how many processes that were."""
        ended, pids = self._process.poll() is not None, self.pids
        killed = send_signal(signal.SIGKILL, pids)
        if not ended:
            # What was being made at that moment is nobody's descendant any more, but of the shell's group.
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
        self._wait(pids)
        return killed

    def leave(self) -> None:
        """End as a machine does that is shut down."""
        pids = self.pids
        send_signal(signal.SIGTERM, pids)
        if self._process.stdin is not None:
            # The first process of a table of its own takes no signal that it has no handler for.
            with suppress(OSError):
                self._process.stdin.close()
        self._wait(pids)

    def _wait(self, pids: list[int]) -> None:
        deadline = time.monotonic() + END_SECONDS_MAX
        while any(not gone(pid) for pid in pids):
            self._process.poll()
            if time.monotonic() > deadline:
                send_signal(signal.SIGKILL, pids)
            time.sleep(POLL_SECONDS)
        self._process.wait()
        if self._process.stdin is not None:
            with suppress(OSError):
                self._process.stdin.close()


class RayCluster:
    """A context manager: a head that has processors of its own, and what joins it."""

    def __init__(self, folder: Path, values: Mapping[str, str]) -> None:
        """``folder``: for logs; Ray's own files lie where paths are short enough for its sockets. ``values``:
        what stands in the handbook's lines for an ellipsis, but for the token."""
        self._folder = folder
        self._files = Path("/tmp") / f"sray-{os.getpid()}"
        self._nodes: list[RayNode] = []
        self._values = {name: shlex.quote(value) for name, value in values.items()}
        self._values["RAY_AUTH_TOKEN"] = secrets.token_hex(32)
        self._page = handbook()
        self.apart = can_be_apart()
        """Whether a node that joins has a process table of its own."""
        self.address = ""
        """What ``stanchion up --address`` takes."""

    def __enter__(self) -> Self:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.address = f"127.0.0.1:{port}"
        head = re.sub(r"--port=\d+", f"--port={port}", self._page.head)
        try:
            # The supervisor is started beside it, outside: they have one process table.
            self._start("head", f"{head} --temp-dir={self._files}", apart=False)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def script(self) -> str:
        """The page's lines that are typed once, for a shell of their own: the last one takes its place."""
        *variables, up = (self.filled(line) for line in self._page.once)
        return "\n".join((*self._everywhere(), *variables, f"exec {up} --ports auto\n"))

    def filled(self, line: str) -> str:
        """A line of the page as it is typed here: nothing listens but on this machine."""
        line = filled(line, self._values, self.address)
        return line.replace("/var/lib/stanchion", self._values["STANCHION_VAR_DIR"]).replace(
            "=0.0.0.0", "=127.0.0.1"
        )

    def join(self) -> RayNode:
        """One more node; returns when it is part of the cluster. Raises NodeError."""
        for _ in range(START_ATTEMPTS - 1):
            with suppress(NodeError):
                return self._join()
        return self._join()

    def drained(self, node: RayNode) -> None:
        """Type on ``node`` what the page says before its machine is stopped. Raises NodeError."""
        drain, stop = self._page.leaving
        if self.apart:
            node.type(self.filled(drain))
            # `ray stop` ends whatever it sees of Ray.
            node.type(f"test $$ = 1 && {stop}")
        else:
            # Seen from here, any node of the machine could be meant by either.
            node.type(f"{self.filled(drain)} {node.id}")

    def _join(self) -> RayNode:
        return self._start(f"node-{len(self._nodes)}", self.filled(self._page.joining), apart=self.apart)

    def _start(self, name: str, line: str, *, apart: bool) -> RayNode:
        node = self.shell(name, apart=apart)
        for each in self._everywhere():
            node.type(each)
        log = self._folder / f"{name}.log"
        log.touch()
        node.type(f"{{ {line} {ON_ONE_MACHINE}; echo {_ENDED}; }} > {shlex.quote(str(log))} 2>&1 &")
        deadline = time.monotonic() + START_SECONDS_MAX
        while _STARTED not in (said := log.read_text("utf-8", "replace")):
            if _ENDED in said or time.monotonic() > deadline:
                node.kill()
                raise NodeError(f"{name} did not start; see {log}")
            time.sleep(POLL_SECONDS)
        return node

    def shell(self, name: str, *, apart: bool) -> RayNode:
        """A machine on which nothing runs yet."""
        self._folder.mkdir(parents=True, exist_ok=True)
        said = self._folder / f"{name}.typed"
        programs = Path(sys.executable).parent
        with said.open("wb") as output:
            process = subprocess.Popen(
                [*(APART if apart else ()), "bash"],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=os.environ | QUIET | {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"},
                start_new_session=True,
            )
        node = RayNode(process, said)
        self._nodes.append(node)
        return node

    def _everywhere(self) -> list[str]:
        return [self.filled(line) for line in self._page.everywhere]

    def _end(self) -> None:
        for node in reversed(self._nodes):
            node.kill()
        self._nodes.clear()
        shutil.rmtree(self._files, ignore_errors=True)
