"""Joining and leaving Ray: a local Ray of this installation, or an existing cluster.

A local Ray keeps its sockets, logs and session files in a folder in which every user may write. That folder
is therefore inside one with a random name that only the installation's user can enter. It cannot be inside
the state folder, because socket paths have at most 107 bytes. A file in the state folder holds its name, so
that the next start can remove the folder of a killed supervisor.
"""

from __future__ import annotations

import hashlib
import logging
import os
import secrets
import shutil
import socket
import stat
import tempfile
from pathlib import Path
from typing import Final

import ray
import structlog

from actors.cluster.environment import ClusterError, prepare, token_file
from actors.cluster.fork_server_process import ForkServer
from actors.cluster.local_node import without_helpers
from actors.cluster.serialization import leave_addons_out
from actors.settings import Settings

OBJECT_STORE_BYTES: Final = 128 * 1024 * 1024
"""All payloads are small and sent inline; this is about the minimum that Ray accepts."""
PROBE_SECONDS: Final = 5.0
START_ATTEMPTS: Final = 2
"""Ray gives up when its parts do not start within 30 s, which happens on a busy machine."""

FOLDERS: Final = Path("/tmp")
"""Parent of the folder of a local Ray; ``TMPDIR`` is too long on some systems."""
FOLDER_PREFIX: Final = "stanchion-"
FOLDER_FILE: Final = "ray-folder"
"""File in the state folder that holds the path of the local Ray's folder."""

_log = structlog.get_logger(__name__)


def namespace(settings: Settings) -> str:
    """Ray's namespace for the actor names of one installation. Several installations can share a cluster."""
    return f"stanchion-{_digest(settings)}"


def join(settings: Settings, fork_server: ForkServer | None = None) -> None:
    """Start a local Ray whose processes come from ``fork_server``, or connect to ``settings.ray_address``.
    Raises ClusterError."""
    leave_addons_out()
    if settings.ray_address:
        _join_cluster(settings.ray_address, namespace(settings))
        return
    prepare(settings)
    _make_token(token_file(settings))
    _remove_folder(settings)
    folder = _make_folder(settings)
    for attempt in range(1, START_ATTEMPTS + 1):
        try:
            _start_local(settings, folder, fork_server)
        except Exception as failure:  # noqa: BLE001 - Ray raises plain ones when its parts take too long
            ray.shutdown()
            _log.warning("ray_did_not_start", error=type(failure).__name__, attempt=attempt)
            reason = str(failure).strip().splitlines()[0] if str(failure).strip() else type(failure).__name__
        else:
            return
    raise ClusterError(f"Ray does not start: {reason}")


def _start_local(settings: Settings, folder: Path, fork_server: ForkServer | None = None) -> None:
    with without_helpers(fork_server):
        ray.init(
            address="local",
            namespace=namespace(settings),
            num_cpus=max(2, os.cpu_count() or 2),
            include_dashboard=False,
            object_store_memory=OBJECT_STORE_BYTES,
            log_to_driver=False,
            logging_level=logging.ERROR,
            _temp_dir=str(folder / "ray"),
        )
        _end_error_listener()


def _join_cluster(address: str, namespace: str) -> None:
    _probe(address)
    try:
        ray.init(address=address, namespace=namespace, log_to_driver=False, logging_level=logging.ERROR)
        _end_error_listener()
    except (ConnectionError, RuntimeError) as failure:
        reason = str(failure).strip().splitlines()[0]
        raise ClusterError(
            f"STANCHION_RAY_ADDRESS: {reason}; a cluster with token authentication needs RAY_AUTH_MODE=token"
        ) from None


def _end_error_listener() -> None:
    """Let Ray's thread that prints errors of tasks end at its next message. While the head is away, it asks
    again without a pause and takes most of a processor."""
    ray._private.worker.global_worker.threads_stopped.set()


def process_names(settings: Settings) -> set[str]:
    """The names of this installation's processes that Ray knows. Blocks on Ray."""
    mine = namespace(settings)
    actors = ray.util.list_named_actors(all_namespaces=True)
    return {actor["name"] for actor in actors if actor["namespace"] == mine}


def _probe(address: str) -> None:
    """Check that the address accepts connections. Ray itself tries for most of a minute before it fails."""
    host, separator, port = address.rpartition(":")
    if not separator or not port.isdecimal():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), PROBE_SECONDS).close()
    except OSError as failure:
        raise ClusterError(f"STANCHION_RAY_ADDRESS: {failure.strerror or 'no answer'}") from None


def leave(settings: Settings) -> None:
    """Disconnect from Ray. A local Ray ends with all its processes, and its files are removed."""
    ray.shutdown()
    if not settings.ray_address:
        _remove_folder(settings)


def _make_folder(settings: Settings) -> Path:
    """Create a folder that only this user can enter."""
    folder = Path(tempfile.mkdtemp(prefix=FOLDER_PREFIX, dir=FOLDERS))
    _write_private(settings.var_dir / FOLDER_FILE, str(folder))
    return folder


def _remove_folder(settings: Settings) -> None:
    """Remove the folder of this installation's last Ray, if this user has created it."""
    file = settings.var_dir / FOLDER_FILE
    try:
        folder = Path(file.read_text())
        found = folder.lstat()
    except OSError:
        return
    private = stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o077
    if private and folder.parent == FOLDERS and folder.name.startswith(FOLDER_PREFIX):
        shutil.rmtree(folder, ignore_errors=True)
    file.unlink(missing_ok=True)


def _make_token(file: Path) -> None:
    """Create the token that this Ray demands for every call, unless it exists; readable by this user only."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not file.exists():
        _write_private(file, secrets.token_hex(32))
    file.chmod(0o600)


def _write_private(file: Path, text: str) -> None:
    """Replace ``file`` atomically with one that only its owner can read."""
    descriptor, name = tempfile.mkstemp(dir=file.parent)
    try:
        with os.fdopen(descriptor, "w") as new:
            new.write(text)
        Path(name).replace(file)
    except BaseException:
        # Also after an interrupt: the draft may hold the token.
        Path(name).unlink(missing_ok=True)
        raise


def _digest(settings: Settings) -> str:
    return hashlib.sha256(str(settings.var_dir).encode()).hexdigest()[:10]
