"""What a decision stores about authorization rules: the versions in force and the observed values."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

RuleName: TypeAlias = tuple[str, int]
"""Id and version of an authorization rule."""


class Observed(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The value of a velocity before the authorization being decided. ``seen``: its merchant or country is
    among those that are counted."""

    value: int
    seen: bool = False


class RulesInForce(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The authorization rules of a decision, and the values that they read besides the command."""

    versions: tuple[RuleName, ...]
    """Active rules in the order of evaluation."""
    shadow_versions: tuple[RuleName, ...] = ()
    observed: tuple[Observed, ...] = ()
    """The values of the velocities of these rules, each once, in the order of their first use."""
    card_created_ms: int = 0
