"""An installation run as the process it is, for whoever wants to use one from outside: the demo, and the
tests.

It speaks to nothing but ``stanchion up`` and its ``run.json``, exactly as a user's own script would.
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
    """``stanchion up`` did not start or stop as it should. The message is its last words."""


class RunningInstallation:
    """``stanchion up --ports auto`` on a folder of its own. Usable as a context manager; may be started
    again."""

    def __init__(
        self, var_dir: Path, settings: Mapping[str, str] | None = None, *, command: Sequence[str] = ()
    ) -> None:
        """``settings``: the installation's ``STANCHION_*`` variables; this process's own ones are not handed
        on. ``command``: another one that ends with an installation of ``var_dir``."""
        self.var_dir = var_dir
        up = (sys.executable, "-m", "ops", "up", "--ports", "auto", "--var", str(var_dir))
        self._command = command or up
        self.output = var_dir.with_name(f"{var_dir.name}.log")
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
        self._environment = inherited | dict(settings or {})
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> dict[str, Any]:
        """Start it and wait until it serves; returns what ``run.json`` says. Raises RunningError."""
        run_file = self.var_dir / RUN_FILE
        run_file.unlink(missing_ok=True)  # of an earlier life that was killed
        self.output.parent.mkdir(parents=True, exist_ok=True)
        with self.output.open("ab") as output:
            self._process = subprocess.Popen(
                self._command,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=self._environment,
                # A Ctrl-C at the terminal reaches the user of this class, who then stops the installation.
                start_new_session=True,
            )
        deadline = time.monotonic() + START_SECONDS_MAX
        while not run_file.exists():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise RunningError(f"it did not start: {self.last_words()}")
            time.sleep(0.05)
        record: dict[str, Any] = json.loads(run_file.read_bytes())
        return record

    @property
    def pid(self) -> int | None:
        """Process id of the supervisor while it runs."""
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    def stop(self, *, ctrl_c: bool = False) -> None:
        """Ask it to end, and wait. Raises RunningError when it does not end well. Safe to call twice.

        ``ctrl_c``: as a terminal does, which interrupts every process of the foreground.
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
            raise RunningError(f"it did not stop within {STOP_SECONDS_MAX:.0f} s") from None
        if status != 0:
            raise RunningError(f"it ended with status {status}: {self.last_words()}")

    def kill(self) -> None:
        """End it as a power cut would."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()

    def last_words(self) -> str:
        """The last line it printed."""
        lines = [line for line in self.output.read_text("utf-8", "replace").splitlines() if line.strip()]
        return lines[-1].strip() if lines else "it printed nothing"

    def __enter__(self) -> dict[str, Any]:
        return self.start()

    def __exit__(self, *_exception: object) -> None:
        self.stop()
