"""Signing secrets at rest."""

from __future__ import annotations

import pytest

from actors.ids import new_id
from actors.vault import Vault, VaultError
from actors.webhooks.secrets import open_secret, seal_secret

SECRET = "whsec_" + "a" * 43


def test_a_secret_opens_for_its_own_endpoint_alone() -> None:
    vault, endpoint_id = Vault((bytes(32),)), new_id()
    sealed = seal_secret(vault, endpoint_id, SECRET)
    assert SECRET.encode() not in sealed
    assert open_secret(vault, endpoint_id, sealed) == SECRET
    with pytest.raises(VaultError):
        open_secret(vault, new_id(), sealed)
