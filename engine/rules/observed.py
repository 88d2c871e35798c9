"""The observed value of a velocity, as a decision stores it."""

from __future__ import annotations

import msgspec


class Observed(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The value of a velocity before the authorization being decided. ``seen``: its merchant or country is
    among those that are counted."""

    value: int
    seen: bool = False
