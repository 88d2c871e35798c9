"""Ray's serializers for other libraries, which no message of Stanchion needs.

Ray registers serializers for pydantic, Starlette and Arrow in every process, and imports pydantic for that:
6 MB of memory and a tenth of a second of processor time. Our processes exchange bytes and plain values only.
"""

from __future__ import annotations

from ray.util import serialization_addons


def _apply_none(_serialization_context: object) -> None:
    """Register no serializer."""


def leave_addons_out() -> None:
    """Register none of these serializers in this process. Call it before the first message."""
    serialization_addons.apply = _apply_none
