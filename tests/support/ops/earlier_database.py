"""A database as an earlier release left it, with transactions."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, Final

import asyncpg

from ops.database.migrate import FOLDER, migrate

ROWS: Final = 7
_FILLED: Final = f"""
    INSERT INTO tenants (id, name) VALUES (gen_random_uuid(), 'acme');
    WITH made AS (
        SELECT gen_random_uuid() AS id, id AS tenant_id, n FROM tenants, generate_series(1, {ROWS}) n
    ), recorded AS (
        INSERT INTO journal (actor_id, seq, epoch, command_key, kind, command, reply, recorded_at)
        SELECT tenant_id, n, 1, uuid_send(id), 'authorize',
            json_build_object('mcc', '5411', 'wire', json_build_object('rrn', '63262000000' || n)), '{{}}',
            now()
        FROM made)
    INSERT INTO transactions (id, tenant_id, live, card_id, cardholder_id, programme_id, seq, kind, status,
        currency, requested_minor, approved_minor, held_minor, cleared_minor, reversed_minor, created_at,
        updated_at, day, remainder_minor)
    SELECT id, tenant_id, false, tenant_id, tenant_id, tenant_id, n, 'purchase', 'pending', 'EUR', 1, 1, 1, 0,
        0, now(), now(), '2026-01-01', 1 FROM made
"""


async def database_of(migrations: int, url: str, folder: Path) -> asyncpg.Connection[Any]:
    """Replace the database at ``url`` by one with the first ``migrations`` and ``ROWS`` transactions, and
    return a session on it. The caller closes it."""
    (files := folder / "migrations").mkdir()
    for path in sorted(FOLDER.glob("*.sql"))[:migrations]:
        shutil.copy(path, files)
    session = await asyncpg.connect(url)
    await session.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    await migrate(url, files, folder / "no functions")
    await session.execute(_FILLED)
    return session
