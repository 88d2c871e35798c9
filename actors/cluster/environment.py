"""What a local Ray is told before it starts, as variables: its processes read them, and some when ``ray`` is
imported.

Niceness 15, Ray's default for workers, starves actors; task events and metric export cost a quarter of the
throughput and nobody here reads them. Ray executes what it is sent, so nobody but this machine may reach its
ports: the variable about clusters makes it listen on the loopback address alone. Whoever joins shall not wait
until two processes have been begun that nobody has asked for yet. A call that comes while Ray is being
started again must not start one by itself. A connection that is left over from a Ray whose head was killed
ends its process after a minute without that head; the supervisor would end long after it has rebuilt Ray, so
that minute has no end here.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from actors.settings import Settings

LOCAL: Final = {
    "RAY_worker_niceness": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_task_events_report_interval_ms": "0",
    "RAY_enable_metrics_collection": "0",
    "RAY_event_stats": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_DEDUP_LOGS": "0",
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    "RAY_prestart_worker_first_driver": "0",
    "RAY_ENABLE_AUTO_CONNECT": "0",
    # Ray ends a process whose call to a dead head has waited this long (60 s by default, in C++, without an
    # exception). The supervisor starts Ray again instead; a thread that still waits for the dead head must
    # not end the supervisor.
    "RAY_gcs_rpc_server_reconnect_timeout_s": "1000000000",
}


class ClusterError(Exception):
    """The Ray cluster of the settings cannot be joined. The message is one line."""


class RestartError(Exception):
    """A process could not be put in the place of another. The message is one line."""


TOKEN_FILE: Final = "keys/ray.token"
"""In the state folder: what a caller of the local Ray must show. Without it any user of the machine could
have Ray execute code as this one."""


def token_file(settings: Settings) -> Path:
    """Where the token of the local Ray is kept."""
    return settings.var_dir / TOKEN_FILE


def prepare(settings: Settings) -> None:
    """Call it before the first import of ``ray``. A cluster that is joined has its own variables."""
    if not settings.ray_address:
        own = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(token_file(settings))}
        os.environ.update(LOCAL | own)
        # It would go before the file.
        os.environ.pop("RAY_AUTH_TOKEN", None)
