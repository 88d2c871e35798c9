"""``channel_allow`` and ``channel_deny``: the channel (``pos``, ``ecommerce``, ``atm``, ``moto``)."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from engine.controls.control_input import ControlInput
from engine.trace import TraceStep, verdict


class ChannelAllow(msgspec.Struct, frozen=True, tag_field="kind", tag="channel_allow"):
    """Passes the listed channels only."""

    values: tuple[str, ...]
    reason: ClassVar[str] = "channel_not_allowed"
    skips_increments: ClassVar[bool] = False

    def check(self, control_input: ControlInput) -> TraceStep:
        passed = control_input.channel in self.values
        return TraceStep("channel_allow", verdict(passed), control_input.channel)


class ChannelDeny(msgspec.Struct, frozen=True, tag_field="kind", tag="channel_deny"):
    """Passes every channel except the listed ones."""

    values: tuple[str, ...]
    reason: ClassVar[str] = "channel_not_allowed"
    skips_increments: ClassVar[bool] = False

    def check(self, control_input: ControlInput) -> TraceStep:
        passed = control_input.channel not in self.values
        return TraceStep("channel_deny", verdict(passed), control_input.channel)
