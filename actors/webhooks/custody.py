"""Custody of endpoints' signing secrets: the API seals them, dispatchers open them."""

from __future__ import annotations

from typing import Final

from actors.vault import Vault

SEAL: Final = "webhook-secret"


class SecretCustody:
    """Signing secrets (``whsec_…``) under the vault's keys."""

    def __init__(self, vault: Vault) -> None:
        self._vault = vault

    def seal(self, endpoint_id: str, secret: str) -> bytes:
        """The secret as it rests in ``webhook_endpoints``; only the same endpoint opens it."""
        return self._vault.seal(SEAL, secret.encode("ascii"), endpoint_id.encode("ascii"))

    def open(self, endpoint_id: str, sealed: bytes) -> str:
        """The secret of an endpoint; ``VaultError`` when it is another endpoint's or was altered."""
        return self._vault.open(SEAL, sealed, endpoint_id.encode("ascii")).decode("ascii")
