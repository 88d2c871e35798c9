"""``channel_allow`` and ``channel_deny``: how the card was used (``pos``, ``ecommerce``, ``atm``, ``moto``)."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from engine.controls.facts import Facts
from engine.trace import Step


class ChannelAllow(msgspec.Struct, frozen=True, tag_field="kind", tag="channel_allow"):
    """Passes only a channel that is listed."""

    values: tuple[str, ...]
    reason: ClassVar[str] = "channel_not_allowed"

    def check(self, facts: Facts) -> Step:
        outcome = "pass" if facts.channel in self.values else "fail"
        return Step("channel_allow", outcome, facts.channel)


class ChannelDeny(msgspec.Struct, frozen=True, tag_field="kind", tag="channel_deny"):
    """Passes only a channel that is not listed."""

    values: tuple[str, ...]
    reason: ClassVar[str] = "channel_not_allowed"

    def check(self, facts: Facts) -> Step:
        outcome = "fail" if facts.channel in self.values else "pass"
        return Step("channel_deny", outcome, facts.channel)
