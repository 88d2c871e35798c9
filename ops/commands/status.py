"""``stanchion status``: which processes of the installation run, where, and in which state.

It reads ``run.json`` and the metrics port of the supervisor, so it needs no credentials and no database.
"""

from __future__ import annotations

import json
import os
import ssl
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal

import httpx2
import msgspec
from prometheus_client.parser import text_string_to_metric_families

from ops.commands.tables import facts, table
from ops.supervision.installation import LOCK_FILE, RUN_FILE

TIMEOUT_SECONDS: Final = 5.0
COLUMNS: Final = ("PROCESS", "PID", "STATE", "CPU SECONDS", "MEMORY MAX")
PART_COLUMNS: Final = ("PART", "STATE")
MEBIBYTE: Final = 1 << 20
READY: Final = "ready"

State = Literal["serving", "not_ready", "starting", "not_answering", "stopped"]
_HEADLINES: Final[Mapping[State, str]] = {
    "serving": "Stanchion is serving.",
    "not_ready": "Stanchion runs, and parts of it are not ready.",
    "starting": "Stanchion is starting or stopping.",
    "not_answering": "The supervisor does not answer.",
    "stopped": "Stanchion does not run.",
}


class ProcessStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One process. ``pid`` counts on the process's own machine."""

    name: str
    pid: int | None
    state: str
    """``ready``, or why it is not."""
    cpu_seconds: float | None
    memory_bytes_max: int | None


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """The installation in a folder."""

    state: State
    var_dir: str
    since: str | None = None
    """The instant from which it serves (ISO 8601, UTC)."""
    supervisor_pid: int | None = None
    addresses: dict[str, str] = {}
    processes: list[ProcessStatus] = []
    parts: dict[str, str] = {}
    """``ready`` or the reason for every other part: servers, ports, shards."""


def status(var_dir: Path, http: httpx2.Client | None = None) -> Status:
    """The status of the installation in ``var_dir``."""
    supervisor = _supervisor(var_dir)
    try:
        text = (var_dir / RUN_FILE).read_text("utf-8")
    except OSError:
        state: State = "stopped" if supervisor is None else "starting"
        return Status(state=state, var_dir=str(var_dir), supervisor_pid=supervisor)
    run, since = json.loads(text), (var_dir / RUN_FILE).stat().st_mtime
    known: dict[str, Any] = {
        "var_dir": str(var_dir),
        "supervisor_pid": supervisor,
        "since": datetime.fromtimestamp(since, UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        "addresses": _addresses(run),
    }
    # The default context knows the authorities of SSL_CERT_FILE, which ``trust_env=False`` leaves out.
    verify = ssl.create_default_context()
    with http or httpx2.Client(timeout=TIMEOUT_SECONDS, trust_env=False, verify=verify) as port:
        try:
            missing = _missing(port.get(run["metrics_url"].removesuffix("/metrics") + "/readyz").text)
            figures = _figures(port.get(run["metrics_url"]).text)
        except httpx2.HTTPError:
            # A killed supervisor leaves run.json behind.
            return Status(state="stopped" if supervisor is None else "not_answering", **known)
    processes = [_process(name, each, missing) for name, each in figures.items() if _IDENTITY in each]
    names = {each.name for each in processes}
    parts = figures.get("supervisor", {}).get(_PARTS, {})
    return Status(
        state="not_ready" if missing else "serving",
        processes=processes,
        parts={part: missing.get(part, READY) for part in {**parts, **missing} if part not in names},
        **known,
    )


def lines(found: Status) -> list[str]:
    """The status for people."""
    shown = [f"{_HEADLINES[found.state]} ({found.var_dir})"]
    if found.since is not None:
        since = found.since.replace("T", " ").replace("Z", " UTC")
        pid = None if found.supervisor_pid is None else f"process {found.supervisor_pid}"
        shown += facts((("since", since), ("supervisor", pid), *found.addresses.items()))
    if found.processes:
        shown += ["", *table(COLUMNS, map(_row, found.processes))]
    if found.parts:
        shown += ["", *table(PART_COLUMNS, found.parts.items())]
    return shown


_IDENTITY: Final = "stanchion_process_serving"
_PARTS: Final = "stanchion_ready"


def _addresses(run: dict[str, Any]) -> dict[str, str]:
    wire = run["iso8583"]
    return {
        "API": run["base_url"],
        "console": f"{run['base_url']}/console",
        "vision host": run["vision_url"],
        "ISO 8583": f"{wire['host']}:{wire['port']}" if wire["port"] else "no link listens",
        "metrics": run["metrics_url"],
    }


def _missing(readiness: str) -> dict[str, str]:
    """The reason for each part that is not ready, from the page ``/readyz``."""
    pairs = (line.partition(": ") for line in readiness.splitlines()[1:])
    return {part: reason for part, _, reason in pairs}


def _figures(page: str) -> dict[str, dict[str, Any]]:
    """The unlabelled figures by process and name, and the parts under ``stanchion_ready``."""
    found: dict[str, dict[str, Any]] = {}
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            labels = dict(sample.labels)
            process = found.setdefault(labels.pop("process", ""), {})
            if sample.name == _PARTS:
                process.setdefault(_PARTS, {})[labels["part"]] = sample.value
            elif not labels:
                process[sample.name] = sample.value
    return found


def _process(name: str, figures: dict[str, Any], missing: dict[str, str]) -> ProcessStatus:
    pid, memory = figures.get("stanchion_process_id"), figures.get("stanchion_process_resident_bytes_max")
    return ProcessStatus(
        name=name,
        pid=None if pid is None else int(pid),
        state=missing.get(name, READY if figures[_IDENTITY] else "not serving"),
        cpu_seconds=figures.get("stanchion_process_cpu_seconds_total"),
        memory_bytes_max=None if memory is None else int(memory),
    )


def _row(process: ProcessStatus) -> tuple[str | None, ...]:
    memory = process.memory_bytes_max
    return (
        process.name,
        None if process.pid is None else str(process.pid),
        process.state,
        None if process.cpu_seconds is None else f"{process.cpu_seconds:.1f}",
        None if memory is None else f"{memory / MEBIBYTE:.0f} MiB",
    )


def _supervisor(var_dir: Path) -> int | None:
    """Process id of the folder's supervisor, if that process lives."""
    with suppress(OSError, ValueError):
        pid = int((var_dir / LOCK_FILE).read_text("utf-8"))
        try:
            os.kill(pid, 0)
        except PermissionError:
            pass  # another user's process, so it exists
        return pid
    return None
