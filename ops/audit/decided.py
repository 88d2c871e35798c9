"""What several promises begin with: decisions as the journal has them, and ids that follow from theirs."""

from __future__ import annotations

from typing import Final

# Every decision: first ones, increments, a network's own without a request before it (``advise``), and a
# network's own that replaces a first one (``superseding``).
DECIDED: Final = """
    WITH decided AS (
        SELECT c.id, CASE WHEN j.kind = 'advise' AND j.authorization_id <> c.id THEN 'superseding'
                     ELSE j.kind END AS kind,
            j.actor_id, j.recorded_at, j.authorization_id, j.decision::jsonb AS decision
        FROM journal j CROSS JOIN LATERAL (SELECT (j.command::jsonb ->> 'id')::uuid AS id) c
        WHERE j.kind IN ('authorize', 'increment') OR (j.kind = 'advise'
            AND (j.authorization_id = c.id OR j.decision::jsonb ->> 'decided' IS NOT NULL)))
"""
# The event of a command has the command's id with 0x10 flipped into its fifteenth byte (engine.ids).
EVENT_OF_COMMAND: Final = "encode(set_byte(uuid_send(id), 14, get_byte(uuid_send(id), 14) # 16), 'hex')::uuid"
# The record of a stand-in, in the same way with 0x09.
STAND_IN_OF_COMMAND: Final = (
    "encode(set_byte(uuid_send(id), 14, get_byte(uuid_send(id), 14) # 9), 'hex')::uuid"
)
