"""A revoked client gets no access."""

from __future__ import annotations

import pytest

from actors.settings import Settings
from actors.vault import Vault
from ops.database.clients import ClientError, revoke_client
from tests.support.api.stack import installation


async def test_a_revoked_client_gets_no_token(settings: Settings, vault: Vault) -> None:
    async with installation(settings, vault) as running:
        leaked, other = await running.caller(), await running.caller()
        client_id = leaked.credentials.client_id
        await revoke_client(settings.database_dsn, client_id, "ann")
        with pytest.raises(AssertionError, match="invalid-client"):
            await leaked.authenticate()
        await other.authenticate()
        with pytest.raises(ClientError):
            await revoke_client(settings.database_dsn, client_id, "ann")
