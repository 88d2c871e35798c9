"""``channel_allow`` and ``channel_deny``: how the card was used (``pos``, ``ecommerce``, ``atm``,
``moto``)."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from engine.controls.control_input import ControlInput
from engine.trace import TraceStep, verdict


class ChannelAllow(msgspec.Struct, frozen=True, tag_field="kind", tag="channel_allow"):
    """Passes only a channel that is listed."""

    values: tuple[str, ...]
    reason: ClassVar[str] = "channel_not_allowed"

    def check(self, facts: ControlInput) -> TraceStep:
        passed = facts.channel in self.values
        return TraceStep("channel_allow", verdict(passed), facts.channel)


class ChannelDeny(msgspec.Struct, frozen=True, tag_field="kind", tag="channel_deny"):
    """Passes only a channel that is not listed."""

    values: tuple[str, ...]
    reason: ClassVar[str] = "channel_not_allowed"

    def check(self, facts: ControlInput) -> TraceStep:
        passed = facts.channel not in self.values
        return TraceStep("channel_deny", verdict(passed), facts.channel)
