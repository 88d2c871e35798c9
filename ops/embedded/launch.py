"""The last step before a server's own code: drop root, end with the parent, become the server.

It runs as a script of its own (``python -I -S launch.py IDENTITY SIGNAL PARENT -- COMMAND…``) and not as a
hook between fork and exec, because Python code there is unsafe in a process with threads.

IDENTITY: ``same`` keeps the user; ``namespace`` makes root appear as nobody inside a user namespace, so files
need no new owner; ``nobody`` changes the user permanently. SIGNAL is sent to the server when PARENT dies
(Linux).
"""

from __future__ import annotations

import ctypes
import os
import pwd
import sys
from pathlib import Path

CLONE_NEWUSER = 0x10000000
PR_SET_PDEATHSIG = 1
NOBODY = "nobody"
NOBODY_ID_IN_NAMESPACE = 65534


def enter_user_namespace() -> None:
    """Become nobody inside a new user namespace; outside and on disk the user stays the same. Raises
    OSError."""
    user, group = os.geteuid(), os.getegid()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWUSER) != 0:
        raise OSError(ctypes.get_errno(), "user namespaces are not available")
    own = Path("/proc/self")
    (own / "setgroups").write_text("deny")
    (own / "uid_map").write_text(f"{NOBODY_ID_IN_NAMESPACE} {user} 1")
    (own / "gid_map").write_text(f"{NOBODY_ID_IN_NAMESPACE} {group} 1")


def become_nobody() -> None:
    """Change permanently to the system's nobody user. Raises OSError or KeyError."""
    entry = pwd.getpwnam(NOBODY)
    os.setgroups([])
    os.setgid(entry.pw_gid)
    os.setuid(entry.pw_uid)


def die_with_parent(signal_number: int, parent: int) -> None:
    """Request ``signal_number`` from the kernel when the parent dies. Linux only; elsewhere the next start
    cleans up."""
    if not sys.platform.startswith("linux"):
        return
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal_number)
    if os.getppid() != parent:
        sys.exit("the starting process died first")


def main(arguments: list[str]) -> None:
    """Change to the identity, request the signal, and replace this process by the command."""
    identity, signal_number, parent, _separator, *command = arguments
    if identity == "namespace":
        enter_user_namespace()
    elif identity == "nobody":
        become_nobody()
    # After the change of identity, which clears the request.
    die_with_parent(int(signal_number), int(parent))
    os.execv(command[0], command)


if __name__ == "__main__":
    main(sys.argv[1:])
