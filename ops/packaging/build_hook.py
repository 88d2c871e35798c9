"""Completes the metadata of the server's wheel: it needs the client of exactly its own version.

The requirement is not in ``pyproject.toml``, because both packages come from this repository: a checkout uses
the client in ``api/client``, and the lock files name published packages only.
"""

from __future__ import annotations

from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

EDITABLE = "editable"


class ClientRequirement(BuildHookInterface[Any]):
    """Adds the requirement to standard wheels, not to a checkout that is installed in place."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """``version`` is the kind of build."""
        if version != EDITABLE:
            build_data["dependencies"].append(f"stanchion-client=={self.metadata.version}")
