"""Signing secrets of endpoints at rest: the API seals them, dispatchers open them."""

from __future__ import annotations

from typing import Final

from actors.vault import Vault

SEAL: Final = "webhook-secret"
"""The purpose under which the vault seals them."""


class SigningSecrets:
    """Signing secrets (``whsec_…``) under the vault's keys."""

    def __init__(self, vault: Vault) -> None:
        self._vault = vault

    def seal(self, endpoint_id: str, secret: str) -> bytes:
        """The secret in the form that ``webhook_endpoints`` stores; it opens only for the same endpoint."""
        return self._vault.seal(SEAL, secret.encode("ascii"), endpoint_id.encode("ascii"))

    def open(self, endpoint_id: str, sealed: bytes) -> str:
        """The secret of an endpoint. Raises ``VaultError`` when it was altered or belongs to another
        endpoint."""
        return self._vault.open(SEAL, sealed, endpoint_id.encode("ascii")).decode("ascii")
