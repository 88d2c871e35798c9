"""Common parts of several checks: the decisions in the journal, and ids derived from theirs."""

from __future__ import annotations

from typing import Final

# All decisions: authorizations, increments, advices of the network's own decision without a prior request
# (``advise``), and advices that replace an earlier decision (``superseding``).
DECIDED: Final = """
    WITH decided AS (
        SELECT c.id, CASE WHEN j.kind = 'advise' AND j.authorization_id <> c.id THEN 'superseding'
                     ELSE j.kind END AS kind,
            j.actor_id, j.recorded_at, j.authorization_id, j.decision::jsonb AS decision
        FROM journal j CROSS JOIN LATERAL (SELECT (j.command::jsonb ->> 'id')::uuid AS id) c
        WHERE j.kind IN ('authorize', 'increment') OR (j.kind = 'advise'
            AND (j.authorization_id = c.id OR j.decision::jsonb ->> 'decided' IS NOT NULL)))
"""
# A command's event has the command's id with 0x10 flipped in its fifteenth byte (engine.ids).
EVENT_OF_COMMAND: Final = "encode(set_byte(uuid_send(id), 14, get_byte(uuid_send(id), 14) # 16), 'hex')::uuid"
# The record of a stand-in has 0x09 flipped.
STAND_IN_OF_COMMAND: Final = (
    "encode(set_byte(uuid_send(id), 14, get_byte(uuid_send(id), 14) # 9), 'hex')::uuid"
)
