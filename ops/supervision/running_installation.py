"""Runs an installation as a separate process, for programs that use it from outside: the demo, chaos, tests.

It uses only ``stanchion up`` and ``run.json``, as a user's script would.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from actors.settings import PREFIX
from ops.supervision.installation import RUN_FILE

START_SECONDS_MAX: Final = 120.0
STOP_SECONDS_MAX: Final = 90.0


class RunningError(Exception):
    """``stanchion up`` failed to start or stop. The message is its last line of output."""


class RunningInstallation:
    """``stanchion up --ports auto`` on its own folder. Usable as a context manager; can be started again."""

    def __init__(
        self, var_dir: Path, settings: Mapping[str, str] | None = None, *, command: Sequence[str] = ()
    ) -> None:
        """``settings``: the installation's ``STANCHION_*`` variables; those of this process are not
        inherited. ``command``: another command line that starts an installation in ``var_dir``."""
        self.var_dir = var_dir
        up = (sys.executable, "-m", "ops", "up", "--ports", "auto", "--var", str(var_dir))
        self._command = command or up
        self.output = var_dir.with_name(f"{var_dir.name}.log")
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
        self._environment = inherited | dict(settings or {})
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> dict[str, Any]:
        """Start it and wait until it serves; returns ``run.json``. Raises RunningError."""
        run_file = self.var_dir / RUN_FILE
        run_file.unlink(missing_ok=True)  # left by a killed installation
        self.output.parent.mkdir(parents=True, exist_ok=True)
        with self.output.open("ab") as output:
            self._process = subprocess.Popen(
                self._command,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=self._environment,
                # Ctrl-C at the terminal must reach only this process, which then stops the installation.
                start_new_session=True,
            )
        deadline = time.monotonic() + START_SECONDS_MAX
        try:
            while not run_file.exists():
                if self._process.poll() is not None or time.monotonic() > deadline:
                    self.kill()
                    raise RunningError(f"stanchion up did not start: {self.last_line()}")
                time.sleep(0.05)
        except KeyboardInterrupt:
            # The installation is in a session of its own, so Ctrl-C has not reached it.
            self.stop()
            raise
        record: dict[str, Any] = json.loads(run_file.read_bytes())
        return record

    @property
    def pid(self) -> int | None:
        """Process id of the supervisor while it runs."""
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    def stop(self, *, ctrl_c: bool = False) -> None:
        """Stop it and wait. Raises RunningError when it fails to stop cleanly. Safe to call twice.

        ``ctrl_c``: interrupt the whole process group, as a terminal does.
        """
        process, self._process = self._process, None
        if process is None:
            return
        if ctrl_c:
            os.killpg(process.pid, signal.SIGINT)
        else:
            process.send_signal(signal.SIGTERM)
        try:
            status = process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise RunningError(f"stanchion up did not stop within {STOP_SECONDS_MAX:.0f} s") from None
        if status != 0:
            raise RunningError(f"stanchion up ended with status {status}: {self.last_line()}")

    def kill(self) -> None:
        """Kill it, like a power cut."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()

    def last_line(self) -> str:
        """Its last line of output."""
        lines = [line for line in self.output.read_text("utf-8", "replace").splitlines() if line.strip()]
        return lines[-1].strip() if lines else "no output"

    def __enter__(self) -> dict[str, Any]:
        return self.start()

    def __exit__(self, *_exception: object) -> None:
        self.stop()
