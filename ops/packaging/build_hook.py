"""Completes the server's wheel: the launcher, and the requirement of the client of exactly its own version.

The requirement is not in ``pyproject.toml``, because both packages come from this repository: a checkout uses
the client in ``api/client``, and the lock files name published packages only.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

EDITABLE = "editable"
LAUNCHER = Path("ops/packaging/launcher/stanchion_server")


class ServerWheel(BuildHookInterface[Any]):
    """Changes standard wheels, and not a checkout that is installed in place."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """``version`` is the kind of build."""
        if version == EDITABLE:
            return
        build_data["dependencies"].append(f"stanchion-client=={self.metadata.version}")
        for path in sorted((Path(self.root) / LAUNCHER).glob("*.py")):
            build_data["force_include"][str(path)] = f"{LAUNCHER.name}/{path.name}"
