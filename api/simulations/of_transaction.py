"""The simulations of a transaction: its spend or force post, and the follow-ups of the spend.

Simulations have no index on their authorization, which every answer of the network would have to maintain. A
simulation is accepted shortly before its decision, and ids are in the order of time, so a short scan backward
from the decision finds it.
"""

from __future__ import annotations

from typing import Final

from api.access.tokens import Caller
from api.database.pool import Connection
from api.operations.pagination import Bounds, Candidates
from engine.ids import first_id_at
from engine.instant import to_ms

SCANNED_MAX: Final = 50_000
"""Simulations that the scan looks at: 25 seconds at 2,000 a second."""
CLOCK_SLACK_MS: Final = 5_000
"""How far the clock of an API server, which makes the ids, may be ahead of that of a host."""
_RECORDED: Final = "SELECT created_at FROM transactions WHERE id = $1::uuid AND tenant_id = $2 AND live = $3"
_FIND: Final = f"""
    WITH looked_at AS (
        SELECT id, parent_simulation_id, authorization_id FROM simulations
        WHERE tenant_id = $1 AND id < $2::uuid ORDER BY id DESC LIMIT {SCANNED_MAX}),
    original AS (
        SELECT id FROM looked_at WHERE authorization_id = $3::uuid AND parent_simulation_id IS NULL LIMIT 1),
    found AS (
        SELECT id FROM original
        UNION ALL SELECT s.id FROM simulations s JOIN original o ON s.parent_simulation_id = o.id)
    SELECT id::text FROM found WHERE id >= $4::uuid AND id < $5::uuid ORDER BY id DESC LIMIT $6
"""


def of_transaction(transaction_id: str) -> Candidates:
    """Finds the ids of a page of the transaction's simulations."""

    async def find(connection: Connection, caller: Caller, bounds: Bounds, limit: int) -> list[str]:
        recorded = await connection.fetchval(_RECORDED, transaction_id, caller.tenant_id, caller.live)
        if recorded is None:
            return []
        before = first_id_at(to_ms(recorded) + CLOCK_SLACK_MS)
        rows = await connection.fetch(
            _FIND, caller.tenant_id, before, transaction_id, bounds.first, bounds.before, limit
        )
        return [row["id"] for row in rows]

    return find
