"""Environment variables of a local Ray, to be set before it starts. Ray's processes read them, some of them
when ``ray`` is imported.

- ``worker_niceness``: Ray's default of 15 starves actors.
- ``task_events_report_interval_ms``, ``enable_metrics_collection``, ``event_stats``: task events and metric
  export cost a quarter of the throughput, and no part of Stanchion reads them.
- ``ENABLE_WINDOWS_OR_OSX_CLUSTER``: 0 makes Ray listen on the loopback address only. Ray executes code that
  it receives, so no other machine may reach its ports.
- ``raylet_report_resources_period_milliseconds``, ``raylet_check_gc_period_milliseconds``,
  ``object_manager_timer_freq_ms``, ``kill_idle_workers_interval_ms`` and
  ``io_context_monitor_probe_interval_ms``: no process needs what Ray's servers do at these intervals. By
  default they wake the servers sixty times a second.
- ``memory_monitor_refresh_ms``: each process's own watchdog checks its memory once a second, too; Ray's
  default reads the memory of all processes four times as often.
- ``prestart_worker_first_driver``: Ray would start two unneeded processes, and each start would wait for
  them.
- ``ENABLE_AUTO_CONNECT``: a call during a restart of Ray must not start another Ray by itself.
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
    "RAY_raylet_report_resources_period_milliseconds": "1000",
    "RAY_raylet_check_gc_period_milliseconds": "1000",
    "RAY_object_manager_timer_freq_ms": "1000",
    "RAY_kill_idle_workers_interval_ms": "1000",
    "RAY_io_context_monitor_probe_interval_ms": "10000",
    "RAY_memory_monitor_refresh_ms": "1000",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_DEDUP_LOGS": "0",
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    "RAY_prestart_worker_first_driver": "0",
    "RAY_ENABLE_AUTO_CONNECT": "0",
    # Ray ends a process whose call to a dead head has waited this long (60 s by default, in C++, without an
    # exception). The supervisor starts Ray again instead. A thread that still waits for the dead head must
    # not end the supervisor long after it has rebuilt Ray.
    "RAY_gcs_rpc_server_reconnect_timeout_s": "1000000000",
}


class ClusterError(Exception):
    """The Ray cluster of the settings cannot be joined. The message is one line."""


class RestartError(Exception):
    """A process could not be replaced. The message is one line."""


TOKEN_FILE: Final = "keys/ray.token"
"""Path in the state folder: the token that callers of the local Ray must present. Without it any user of the
machine could make Ray execute code as this user."""


def token_file(settings: Settings) -> Path:
    """The file of the local Ray's token."""
    return settings.var_dir / TOKEN_FILE


def prepare(settings: Settings) -> None:
    """Set the variables; call it before the first import of ``ray``. An existing cluster has its own
    variables."""
    if not settings.ray_address:
        own = {
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN_PATH": str(token_file(settings)),
            # Ray ends a process whose raylet is dead. It takes init for a dead raylet where it does not know
            # its raylet's process id, and a service manager's processes are children of init. The supervisor
            # names itself, because it outlives its raylet. The raylet names itself to its own processes.
            "RAY_RAYLET_PID": str(os.getpid()),
        }
        os.environ.update(LOCAL | own)
        # It would take precedence over the file.
        os.environ.pop("RAY_AUTH_TOKEN", None)
