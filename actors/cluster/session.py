"""Joining Ray: a local one of our own, or a cluster that is there."""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import socket
from pathlib import Path
from typing import Final

import ray
import structlog

from actors.cluster.environment import ClusterError, prepare
from actors.cluster.local_node import without_helpers
from actors.settings import Settings

OBJECT_STORE_BYTES: Final = 128 * 1024 * 1024
"""Everything that travels is small and inline; the store is only what Ray insists on."""
PROBE_SECONDS: Final = 5.0
START_ATTEMPTS: Final = 2
"""Ray gives itself up when its parts have not begun after 30 s, which happens on a machine that is busy."""

_log = structlog.get_logger(__name__)


def namespace(settings: Settings) -> str:
    """The names of one installation's actors live here, so that several can share a cluster."""
    return f"stanchion-{_digest(settings)}"


def join(settings: Settings) -> None:
    """Start a local Ray, or connect to ``settings.ray_address``. Raises ClusterError."""
    if settings.ray_address:
        _join_cluster(settings.ray_address, namespace(settings))
        return
    prepare(settings)
    for attempt in range(1, START_ATTEMPTS + 1):
        try:
            _start_local(settings)
        except Exception as failure:  # noqa: BLE001 - Ray raises plain ones when its parts take too long
            ray.shutdown()
            _log.warning("ray_did_not_start", error=type(failure).__name__, attempt=attempt)
            reason = str(failure).strip().splitlines()[0] if str(failure).strip() else type(failure).__name__
        else:
            return
    raise ClusterError(f"Ray does not start: {reason}")


def _start_local(settings: Settings) -> None:
    with without_helpers():
        ray.init(
            address="local",
            namespace=namespace(settings),
            num_cpus=max(2, os.cpu_count() or 2),
            include_dashboard=False,
            object_store_memory=OBJECT_STORE_BYTES,
            log_to_driver=False,
            logging_level=logging.ERROR,
            _temp_dir=str(_folder(settings)),
        )


def _join_cluster(address: str, namespace: str) -> None:
    _probe(address)
    try:
        ray.init(address=address, namespace=namespace, log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, RuntimeError) as failure:
        reason = str(failure).strip().splitlines()[0]
        raise ClusterError(
            f"STANCHION_RAY_ADDRESS: {reason}; a cluster with token authentication needs RAY_AUTH_MODE=token"
        ) from None


def named(settings: Settings) -> set[str]:
    """The names of this installation's processes that Ray knows. Blocks."""
    mine = namespace(settings)
    actors = ray.util.list_named_actors(all_namespaces=True)
    return {actor["name"] for actor in actors if actor["namespace"] == mine}


def _probe(address: str) -> None:
    """Ray itself tries for most of a minute before it says that nobody is there."""
    host, separator, port = address.rpartition(":")
    if not separator or not port.isdecimal():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), PROBE_SECONDS).close()
    except OSError as failure:
        raise ClusterError(f"STANCHION_RAY_ADDRESS: {failure.strerror or 'no answer'}") from None


def leave(settings: Settings) -> None:
    """Disconnect; a local Ray ends with all its processes and files."""
    ray.shutdown()
    if not settings.ray_address:
        shutil.rmtree(_folder(settings), ignore_errors=True)


def _folder(settings: Settings) -> Path:
    """Short on purpose: Ray puts sockets below it, whose paths may have 107 bytes."""
    return Path("/tmp") / f"stanchion-{_digest(settings)}"


def _digest(settings: Settings) -> str:
    return hashlib.sha256(str(settings.var_dir).encode()).hexdigest()[:10]
