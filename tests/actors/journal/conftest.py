"""One database for all tests of a module, emptied after each test: a new database takes longer than a
test."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator

import pytest

from tests.conftest import PostgresServer
from tests.support.actors.journal.backends import PostgresBackend


@pytest.fixture(scope="module")
def journal_url(postgres_server: PostgresServer) -> Iterator[str]:
    """The address of the module's database."""
    name = f"stanchion_journal_{os.getpid()}"
    postgres_server.drop(name)
    postgres_server.create(name)
    yield postgres_server.database(name)
    postgres_server.drop(name)


@pytest.fixture
async def postgres(journal_url: str) -> AsyncIterator[PostgresBackend]:
    """The module's database, empty."""
    async with PostgresBackend.on(journal_url) as backend:
        yield backend
        await backend.empty()
