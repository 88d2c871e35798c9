"""A Ray cluster of several nodes on one machine: nodes can join, leave, and die.

Each node is a shell that runs the command lines of CLUSTER.md (``ops.chaos.environment.handbook``), with
options that allow several nodes on one machine. Where the kernel permits it, a joining node gets its own PID
namespace, as on a separate machine: ``stanchion drain`` then finds its own node, and ``ray stop`` stops only
that one. The nodes communicate through Ray only, like nodes on different machines.
"""

from __future__ import annotations

import os
import re
import secrets
import shlex
import shutil
import signal
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
from ops.embedded.ports import free_port, free_ports

START_SECONDS_MAX: Final = 60.0
START_ATTEMPTS: Final = 3
"""Ray gives up a node that has not started after 30 s, which happens on a busy machine."""
COMMAND_SECONDS_MAX: Final = 180.0
END_SECONDS_MAX: Final = 20.0
POLL_SECONDS: Final = 0.05
STORE_BYTES: Final = 128 * 1024 * 1024
PORTS: Final = (
    "STANCHION_API_PORT",
    "STANCHION_VISION_PORT",
    "STANCHION_ISO8583_PORT",
    "STANCHION_METRICS_PORT",
)

ISOLATED: Final = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
QUIET: Final = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_event_stats": "0"}
ON_ONE_MACHINE: Final = (
    f"--block --node-ip-address=127.0.0.1 --object-store-memory={STORE_BYTES}"
    " --min-worker-port=0 --max-worker-port=0 --disable-usage-stats --log-color=false"
)
_STARTED: Final = "Ray runtime started"
_ENDED: Final = "the node has ended"
_NODE_ID: Final = re.compile(r"--node_id=(\w+)")


class NodeError(Exception):
    """A node did not start, or a command on it failed. The message is one line."""


def can_isolate() -> bool:
    """Whether this machine permits PID namespaces."""
    try:
        return subprocess.run([*ISOLATED, "true"], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


class RayNode:
    """One node: a shell and its descendants. Safe to ``leave`` or ``kill`` twice."""

    def __init__(self, process: subprocess.Popen[bytes], output_file: Path | None = None) -> None:
        """``output_file``: the file with the shell's output, for a node that runs commands."""
        self._process = process
        self._output_file = output_file

    @property
    def pids(self) -> list[int]:
        """The node's processes, including its workers."""
        return descendants(self._process.pid)

    def named(self, title: str) -> list[int]:
        """Its processes whose title begins with ``title``."""
        found = []
        for pid in self.pids:
            with suppress(OSError):
                if Path(f"/proc/{pid}/cmdline").read_bytes().startswith(title.encode()):
                    found.append(pid)
        return found

    def runs(self, name: str) -> bool:
        """Whether the process ``name`` of the installation is on this node."""
        title = f"stanchion: {name}"
        return len(self.named(title)) > len(self.named(f"{title}-"))

    @property
    def id(self) -> str:
        """Ray's id of the node. Raises NodeError when no raylet runs."""
        for pid in self.pids:
            with suppress(OSError):
                if found := _NODE_ID.search(Path(f"/proc/{pid}/cmdline").read_text("utf-8", "replace")):
                    return found[1]
        raise NodeError("the node runs no raylet")

    def run(self, line: str) -> str:
        """Run ``line`` in the node's shell; returns its output. Raises NodeError when it fails or does not
        finish."""
        stdin, output_file = self._process.stdin, self._output_file
        assert stdin is not None
        assert output_file is not None, "this node has no output file"
        begin, mark = output_file.stat().st_size, f"end-of-{secrets.token_hex(4)}"
        try:
            stdin.write(f"{line}\necho {mark} $?\n".encode())
            stdin.flush()
        except (OSError, ValueError):
            raise NodeError("the node's shell has ended") from None
        deadline = time.monotonic() + COMMAND_SECONDS_MAX
        while time.monotonic() < deadline and not gone(self._process.pid):
            printed = output_file.read_bytes()[begin:].decode("utf-8", "replace")
            if end := re.search(rf"^{mark} (\d+)$", printed, re.MULTILINE):
                if end[1] != "0":
                    raise NodeError(f"status {end[1]} of: {line}; see {output_file}")
                return printed[: end.start()]
            time.sleep(POLL_SECONDS)
        raise NodeError(f"did not finish: {line}; see {output_file}")

    def kill(self) -> int:
        """Kill all processes at once, like a power cut; returns their number."""
        ended, pids = self._process.poll() is not None, self.pids
        killed = send_signal(signal.SIGKILL, pids)
        if not ended:
            # A process forked at that moment is no descendant any more, but still in the shell's group.
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
        self._wait(pids)
        return killed

    def leave(self) -> None:
        """Shut down like a machine that is switched off."""
        pids = self.pids
        send_signal(signal.SIGTERM, pids)
        if self._process.stdin is not None:
            # The first process of a PID namespace ignores signals without a handler.
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
    """A context manager: the head node, without hosts, and the nodes that join it."""

    def __init__(self, folder: Path, values: Mapping[str, str]) -> None:
        """``folder``: for logs (Ray's own files need short paths for its sockets). ``values``: values for the
        placeholders of CLUSTER.md, except the token."""
        self._folder = folder
        self._files = Path("/tmp") / f"sray-{os.getpid()}"
        self._nodes: list[RayNode] = []
        self._values = {name: shlex.quote(value) for name, value in values.items()}
        self._values["RAY_AUTH_TOKEN"] = secrets.token_hex(32)
        self._ports = dict(zip(PORTS, free_ports(len(PORTS)), strict=True))
        self._page = handbook()
        self._port = 0
        self._joined = self._heads = 0
        self._head: RayNode | None = None
        self.isolated = can_isolate()
        """Whether joining nodes get their own PID namespace."""
        self.address = ""
        """The address for ``stanchion up --address``."""

    def __enter__(self) -> Self:
        self._port = free_port()
        self.address = f"127.0.0.1:{self._port}"
        try:
            self.start_head()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def start_head(self) -> None:
        """Start the head's machine, which has no hosts. Raises NodeError."""
        # Another machine would not have this file. Ray reads it, finds the nodes of the previous head, and
        # takes them for a head that runs.
        (self._files / "ray_current_cluster").unlink(missing_ok=True)
        head = re.sub(r"--port=\d+", f"--port={self._port}", self.filled(self._page.head))
        line = f"{head} --temp-dir={self._files}"
        # The supervisor starts beside the head and needs the same process table.
        self._heads += 1
        name = f"head-{self._heads}"
        self._head = self._start(name, line, self.filled(self._page.head_variable), isolated=False)

    def kill_head(self) -> None:
        """Kill all processes of the head's machine at once, except the supervisor."""
        assert self._head is not None, "start_head comes first"
        self._head.kill()
        self._nodes.remove(self._head)

    def script(self) -> str:
        """The page's commands that are run once, as a script; its last command replaces the shell. Every
        start has the same ports, so that a new supervisor can adopt the processes of the last one."""
        *variables, up = (self.filled(line) for line in self._page.once)
        ports = " ".join(f"{name}={port}" for name, port in self._ports.items())
        return "\n".join((*self._everywhere(), *variables, f"export {ports}", f"exec {up}\n"))

    def filled(self, line: str) -> str:
        """A line of the page for this machine: values are filled in, and servers listen on loopback only."""
        line = filled(line, self._values, self.address)
        return line.replace("/var/lib/stanchion", self._values["STANCHION_VAR_DIR"]).replace(
            "=0.0.0.0", "=127.0.0.1"
        )

    def join(self) -> RayNode:
        """Start one more node; returns when it has joined the cluster. Raises NodeError."""
        for _ in range(START_ATTEMPTS - 1):
            with suppress(NodeError):
                return self._join()
        return self._join()

    def drained(self, node: RayNode) -> None:
        """Run on ``node`` the page's commands for a machine that is to be stopped. Raises NodeError."""
        drain, stop = self._page.leaving
        if self.isolated:
            node.run(self.filled(drain))
            # `ray stop` stops every Ray process that it sees, so it must run in its own PID namespace.
            node.run(f"test $$ = 1 && {stop}")
        else:
            # Without namespaces these commands could hit any node of the machine, so the node is named.
            node.run(f"{self.filled(drain)} {node.id}")

    def _join(self) -> RayNode:
        self._joined += 1
        return self._start(f"node-{self._joined}", self.filled(self._page.joining), isolated=self.isolated)

    def _start(self, name: str, line: str, *variables: str, isolated: bool) -> RayNode:
        node = self.shell(name, isolated=isolated)
        for each in (*self._everywhere(), *variables):
            node.run(each)
        log = self._folder / f"{name}.log"
        log.touch()
        node.run(f"{{ {line} {ON_ONE_MACHINE}; echo {_ENDED}; }} > {shlex.quote(str(log))} 2>&1 &")
        deadline = time.monotonic() + START_SECONDS_MAX
        while _STARTED not in (output_file := log.read_text("utf-8", "replace")):
            if _ENDED in output_file or time.monotonic() > deadline:
                node.kill()
                raise NodeError(f"{name} did not start; see {log}")
            time.sleep(POLL_SECONDS)
        return node

    def shell(self, name: str, *, isolated: bool) -> RayNode:
        """A shell of a new node on which nothing runs yet."""
        self._folder.mkdir(parents=True, exist_ok=True)
        output_file = self._folder / f"{name}.shell"
        programs = Path(sys.executable).parent
        with output_file.open("wb") as output:
            process = subprocess.Popen(
                [*(ISOLATED if isolated else ()), "bash"],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=os.environ | QUIET | {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"},
                start_new_session=True,
            )
        node = RayNode(process, output_file)
        self._nodes.append(node)
        return node

    def _everywhere(self) -> list[str]:
        return [self.filled(line) for line in self._page.everywhere]

    def _end(self) -> None:
        for node in reversed(self._nodes):
            node.kill()
        self._nodes.clear()
        shutil.rmtree(self._files, ignore_errors=True)
