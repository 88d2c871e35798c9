"""A refused message is counted and logged with the link, the reason, and who sent it."""

from __future__ import annotations

from structlog.testing import capture_logs

from actors.network.edge_counts import EdgeCounts
from actors.network.links.refusing import note_refusal
from tests.support.actors.network.links import entry_of
from tests.support.actors.network.support import request


def test_refusal_is_counted_and_logged() -> None:
    entry, counts, message = entry_of(), EdgeCounts(), request(1)
    with capture_logs() as lines:
        note_refusal(entry, counts, "institution", message)
    assert counts.screened == {"institution": 1}
    assert lines == [
        {
            "event": "link_message_refused",
            "log_level": "warning",
            "link": entry.name,
            "reason": "institution",
            "mti": message.mti,
            "acquirer_id": message.fields[32],
        }
    ]
