"""Records the examples from an installation of its own and writes them to the API's folder, with the same
requests as calls of the Python client. ``--python`` writes those calls only, and needs no installation.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from api.docs.examples import FILE, PYTHON_FILE, recorded
from engine.scopes import SCOPES
from ops.reference.python_calls import python_calls
from ops.reference.record import record
from ops.supervision.running_installation import RunningInstallation


def main() -> None:
    """Record and write."""
    if sys.argv[1:] != ["--python"]:
        _record()
    calls = python_calls(recorded())
    PYTHON_FILE.write_text(json.dumps(calls, indent=1, ensure_ascii=False) + "\n", "utf-8")
    print(f"{len(calls)} calls in {PYTHON_FILE}")


def _record() -> None:
    with TemporaryDirectory(prefix="stanchion-reference-") as folder:
        var_dir = Path(folder) / "var"
        with RunningInstallation(var_dir, {"STANCHION_AUTO_CLEAR_SECONDS": "0"}) as found:
            owner = next(
                each for each in found["tenants"] if (each["mode"], each["role"]) == ("test", "owner")
            )
            client = _client(owner["name"], var_dir)
            examples = record(found["base_url"], client, var_dir, found["vision_url"])
    FILE.write_text(json.dumps(examples, indent=1, ensure_ascii=False) + "\n", "utf-8")
    print(f"{len(examples)} examples in {FILE}")


def _client(tenant: str, var_dir: Path) -> dict[str, str]:
    """A new client of ``tenant`` with every scope, also those that no default set has."""
    about = ["--tenant", tenant, "--mode", "test", "--role", "owner", "--var", str(var_dir)]
    scopes = [word for scope in SCOPES for word in ("--scope", scope)]
    command = [sys.executable, "-m", "ops", "clients", "create", *about, *scopes]
    made: dict[str, str] = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    return made


if __name__ == "__main__":
    main()
