"""Stores the rows of a database in full, as the release before did, so that a test can change their texts."""

from __future__ import annotations

from typing import Final

STORE_IN_FULL: Final = """
    INSERT INTO event_rows (id, tenant_id, live, type, created_at, data, txid)
    SELECT id, tenant_id, live, type, created_at, data, txid FROM events WHERE row_id <> id;
    UPDATE event_rows e SET type = v.type, data = v.data FROM events v
    WHERE e.data IS NULL AND (v.tenant_id, v.live, v.row_id, v.id) = (e.tenant_id, e.live, e.id, e.id);
    UPDATE journal_rows r SET command = j.command, inputs = j.inputs, decision = j.decision, reply = j.reply
    FROM journal j WHERE r.command LIKE '[%' AND (j.actor_id, j.seq) = (r.actor_id, r.seq);
"""
"""Needs a session with the role of a replica, in which the triggers of append-only tables do not fire."""
