"""The owner of the demo tenant: whoever operates an installation signs in as it."""

from __future__ import annotations

from typing import Final

LOCAL_TENANT: Final = "demo"
LOCAL_EMAIL: Final = "owner@localhost"
LOCAL_NAME: Final = "Local owner"
