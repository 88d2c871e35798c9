"""The fork server: a process that has imported Ray and the code of all roles, and starts Ray's processes as
copies of itself (fork(2)).

These imports take most of the processor time of a start. The fork server makes them once, and its copies
share the memory. It has one thread until it ends: a copy of a process with several threads could inherit a
lock that no thread releases.

In place of a Python process the raylet starts ``fork_client``. The client connects to the socket that this
program has as its standard input, and sends its arguments, its environment and its standard streams. The copy
answers with its process id and waits for ``GO``, so a client that has given up meanwhile gets no process.

    python -P -m actors.cluster.fork_server < SOCKET > LIFELINE

Only processes of the same user are answered.

Ray's native part reads the ``RAY_`` variables when it is loaded, which is in this process. Therefore
``RAY_RAYLET_PID`` names the supervisor here: the copies end with it, and outlive a lost raylet until their
successors serve.
"""

from __future__ import annotations

import gc
import json
import os
import runpy
import select
import signal
import socket
import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, Final, NamedTuple

from actors.cluster.fork_client import GO, user_of

PRELOADED: Final = ("ray._private.workers.default_worker", "actors.cluster.process")
"""Ray's program for processes, and the code that all roles share."""
TITLE: Final = "stanchion: fork server"
JOB: Final = "RAY_JOB_ID"
"""A variable that Ray's native part reads when it is loaded. It has one value in the life of a local Ray."""
REQUEST_BYTES_MAX: Final = 1 << 20
STREAMS: Final = 3
CLIENT_SECONDS: Final = 1.0
"""Time limit of each message of a client."""
OOM_SCORE: Final = "1000"
"""The raylet writes this to ``oom_score_adj`` of the processes that it starts, here of the client."""


class Request(NamedTuple):
    """A program to run in a copy."""

    arguments: list[str]
    """Path and arguments of the program."""
    environment: dict[str, str]
    streams: list[int]
    """Descriptors of standard input, output and error."""


def main() -> None:
    """Serve until the reader of the lifeline closes it. Returns in each copy after its program."""
    listener, lifeline = socket.socket(fileno=os.dup(0)), os.dup(1)
    for module in PRELOADED:
        import_module(module)
    _set_title()
    # Copies that have ended need no wait(2).
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    # The collector of a copy would write to every shared object.
    gc.collect()
    gc.freeze()
    request = serve(listener, lifeline)
    listener.close()
    os.close(lifeline)
    if request is not None:
        become(request)
        runpy.run_path(request.arguments[0], run_name="__main__")


def serve(listener: socket.socket, lifeline: int) -> Request | None:
    """Make a copy for each client. Returns the request in the copy, and ``None`` at the end of the
    lifeline."""
    poll = select.poll()
    poll.register(listener, select.POLLIN)
    # A pipe without a reader.
    poll.register(lifeline, select.POLLERR)
    while lifeline not in {descriptor for descriptor, _event in poll.poll()}:
        client, _ = listener.accept()
        with client, suppress(OSError, ValueError):
            client.settimeout(CLIENT_SECONDS)
            if user_of(client) == os.geteuid() and (request := _fork_for(client)) is not None:
                return request
    return None


def _fork_for(client: socket.socket) -> Request | None:
    """Make a copy for ``client``: returns its request in the copy, ``None`` in this process. Raises OSError
    and ValueError for a client that does not finish its request."""
    request = read_request(client)
    if request.environment.get(JOB) == os.environ.get(JOB) and os.fork() == 0:
        # As the raylet does for its processes: it kills the process group of one that has died.
        os.setpgrp()
        if _is_awaited(client):
            return request
        os._exit(0)
    for stream in request.streams:
        os.close(stream)
    return None


def _is_awaited(client: socket.socket) -> bool:
    try:
        client.sendall(str(os.getpid()).encode())
        return client.recv(1) == GO
    except OSError:
        return False


def read_request(client: socket.socket) -> Request:
    """Read one request, which ends with a line feed. Raises OSError, or ValueError for an incomplete one."""
    raw, streams, _flags, _address = socket.recv_fds(client, REQUEST_BYTES_MAX, STREAMS)
    while not raw.endswith(b"\n") and len(raw) < REQUEST_BYTES_MAX and (more := client.recv(1 << 16)):
        raw += more
    content: dict[str, Any] = json.loads(raw)
    return Request(content["arguments"], content["environment"], streams)


def become(request: Request) -> None:
    """Take over the arguments, the environment and the streams."""
    for number, stream in enumerate(request.streams):
        os.dup2(stream, number)
        os.close(stream)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.environ.clear()
    os.environ.update(request.environment)
    sys.argv[:] = request.arguments
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(OOM_SCORE)


def _set_title() -> None:
    """Not by ``title.set_title``: each copy sets its own title with that."""
    import_module("ray._raylet").setproctitle(TITLE)


if __name__ == "__main__":
    main()
