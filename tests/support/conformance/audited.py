"""Installations of conformance tests: their books are audited at the end."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import pytest

from actors.settings import Settings
from actors.vault import Vault
from ops.audit import audit
from ops.embedded.ports import free_port
from tests.conftest import PostgresServer
from tests.support.api.event_schemas import faults_of_all
from tests.support.api.stack import Installation, installation


@contextmanager
def own_settings(
    server: PostgresServer, folders: pytest.TempPathFactory, name: str, **fields: Any
) -> Iterator[Settings]:
    """Settings of an installation with a database of its own. Automatic clearing is off: it would change
    balances during a test."""
    database = f"stanchion_test_{name}"
    server.create(database)
    yield Settings.load(
        var_dir=folders.mktemp(name),
        database_url=server.database(database),
        iso8583_port=free_port(),
        auto_clear_seconds=0,
        **fields,
    )
    server.drop(database)


@asynccontextmanager
async def audited(settings: Settings) -> AsyncIterator[Installation]:
    """An installation. At the end its events fit their schemas, and the audit finds no broken promise."""
    async with installation(settings, Vault.from_settings(settings)) as started:
        yield started
        assert await faults_of_all(started.services.pool) == []
    assert [str(finding) for finding in await audit(settings.database_dsn) if finding.broken] == []
