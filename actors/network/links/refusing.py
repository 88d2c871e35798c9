"""Counts and logs a message that a link may not send."""

from __future__ import annotations

from typing import Literal

import structlog

from actors.network.edge_counts import EdgeCounts
from actors.network.links.entry import LinkEntry
from engine.iso8583.message import Message

Reason = Literal["mac", "sign_on", "signed_off", "message_class", "institution", "iin"]
"""See *Refusals* in ``ops/docs/LINKS.md``."""

_log = structlog.get_logger(__name__)


def note_refusal(entry: LinkEntry, counts: EdgeCounts, reason: Reason, message: Message) -> None:
    """Count and log that ``message`` was refused on the link ``entry``. The institution (DE32) is what the
    message says."""
    counts.count_screened(reason)
    _log.warning(
        "link_message_refused",
        link=entry.name,
        reason=reason,
        mti=message.mti,
        acquirer_id=message.fields.get(32),
    )
