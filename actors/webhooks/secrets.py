"""Signing secrets at rest: sealed for one endpoint each, so that a row cannot be given another's secret."""

from __future__ import annotations

from typing import Final

from actors.vault import Vault

SEAL_PURPOSE: Final = "webhook-secret"


def seal_secret(vault: Vault, endpoint_id: str, secret: str) -> bytes:
    """``secret`` of the endpoint as it is stored."""
    return vault.seal(SEAL_PURPOSE, secret.encode("ascii"), endpoint_id.encode("ascii"))


def open_secret(vault: Vault, endpoint_id: str, sealed: bytes) -> str:
    """The secret of the endpoint. Raises VaultError when it was sealed for another, or altered."""
    return vault.open(SEAL_PURPOSE, sealed, endpoint_id.encode("ascii")).decode("ascii")
