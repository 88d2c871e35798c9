"""What an installation needs before its actors start: a database of this version, with matching keys, Redis,
and the demo clients."""

from __future__ import annotations

import asyncio
import time
from typing import Final

import structlog

from actors.database_address import role_of, servers_of
from actors.journal.replication import data_loss
from actors.settings import PREFIX, Settings
from actors.vault import Vault
from ops.database import process_role
from ops.database.clients import ClientCredentials, ensure_demo_clients
from ops.database.key_check import check_master_key
from ops.database.migrate import applied_line, migrate
from ops.database.operator_acts import on_installation, operator_of, record_alone
from ops.database.operator_connection import connect_operator
from ops.supervision.errors import UpError
from ops.supervision.terminal import tell

CLIENTS_FILE: Final = "keys/demo-clients.json"
DEPENDENCY_SECONDS_MAX: Final = 30.0

_log = structlog.get_logger(__name__)


async def prepare(settings: Settings, vault: Vault) -> list[ClientCredentials]:
    """Wait for the dependencies, migrate the database, and check that keys and clients match it. Returns the
    demo clients. Raises MigrationError, KeyCheckError, ClientError and UpError."""
    # In a cluster, processes of the previous version may still be running.
    shared = settings.ray_address is not None
    owner = settings.migrations_dsn
    applied = await migrate(
        owner, patience_seconds=DEPENDENCY_SECONDS_MAX, before_only=shared, keys=lambda: vault
    )
    if applied:
        _log.info("migrated", applied=applied)
        tell(applied_line(applied))
        await record_alone(
            owner, operator_of(settings), on_installation("migrate_database", {"applied": applied})
        )
    await _check_replication(settings)
    await process_role.grant(owner, role_of(settings.database_dsn))
    await check_master_key(settings.database_dsn, vault)
    await _wait_for_redis(settings.redis_dsn)
    return await ensure_demo_clients(settings.database_dsn, vault, settings.var_dir / CLIENTS_FILE)


async def _check_replication(settings: Settings) -> None:
    """Raise UpError if a failover of PostgreSQL can lose acknowledged decisions, unless the settings accept
    that."""
    dsn = settings.migrations_dsn
    connection = await connect_operator(dsn)
    try:
        servers = max(len(servers_of(each)) for each in (dsn, settings.database_dsn))
        reason = await data_loss(connection, servers)
    finally:
        await connection.close(timeout=10)
    if reason is None:
        return
    if not settings.allow_data_loss:
        raise UpError(
            f"a failover of PostgreSQL can lose acknowledged decisions: {reason}; accept it with"
            f" {PREFIX}ALLOW_DATA_LOSS=1"
        )
    _log.warning("data_loss_possible", reason=reason)
    tell(f"WARNING: a failover of PostgreSQL can lose acknowledged decisions: {reason}.")


async def _wait_for_redis(url: str) -> None:
    """Return once Redis answers. Raises UpError after ``DEPENDENCY_SECONDS_MAX``."""
    from redis.asyncio import Redis
    from redis.exceptions import AuthenticationError, RedisError

    deadline = time.monotonic() + DEPENDENCY_SECONDS_MAX
    async with Redis.from_url(url, socket_timeout=5.0, socket_connect_timeout=5.0) as client:
        while True:
            try:
                await client.ping()
                return
            except AuthenticationError:
                raise UpError("Redis refuses the password of STANCHION_REDIS_URL") from None
            except (RedisError, OSError):
                if time.monotonic() > deadline:
                    raise UpError("Redis cannot be reached; check STANCHION_REDIS_URL") from None
            await asyncio.sleep(0.2)
