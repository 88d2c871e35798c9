"""Ask the fork server for a process, and end once it runs. Without an answer, become the process.

The raylet starts this script in place of Python (``python -I -S fork_client.py SOCKET SECONDS PYTHON SETUP
PROGRAM ARGUMENTS…``). SETUP is Ray's program that applies a runtime environment and then starts Python a
second time; it is left out where there is none. The script runs as a copy outside the package, so that it
outlives a change of the package's files, and imports the standard library only.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import sys

NOT_FOR_PROGRAM = ("--language=", "--serialized-runtime-env-context=")
"""Arguments for SETUP."""
RUNTIME_ENVIRONMENT = "--serialized-runtime-env-context="
GO = b"g"
CREDENTIALS = struct.Struct("3i")
"""Process, user and group of a peer."""


def main(arguments: list[str]) -> None:
    """Returns when the fork server has made the process; otherwise replaces this process by it."""
    name, seconds, python, setup, *program = arguments
    if any(each.startswith(RUNTIME_ENVIRONMENT) for each in program):
        os.execv(python, [python, setup, *program])
    program = [each for each in program if not each.startswith(NOT_FOR_PROGRAM)]
    if not delegate(name, float(seconds), program):
        os.execv(python, [python, *program])


def delegate(name: str, seconds: float, program: list[str]) -> bool:
    """Whether the fork server at the socket ``name`` has made a process for ``program``."""
    content = {"arguments": program, "environment": dict(os.environ)}
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
            server.settimeout(seconds)
            server.connect(f"\0{name}")
            if user_of(server) != os.geteuid():
                return False
            # The streams go with the first byte.
            socket.send_fds(server, [b" "], [0, 1, 2])
            server.sendall(json.dumps(content).encode() + b"\n")
            if not server.recv(20):
                return False
            server.sendall(GO)
            return True
    except OSError:
        return False


def user_of(peer: socket.socket) -> int:
    """The user of the process at the other end (SO_PEERCRED, unix(7)). Names outside the file system have no
    owner, and every user of the machine can see and use them."""
    raw = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
    user: int = CREDENTIALS.unpack(raw)[1]
    return user


if __name__ == "__main__":
    main(sys.argv[1:])
