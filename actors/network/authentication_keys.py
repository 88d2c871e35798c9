"""Keys of programmes for 3-D Secure authentication values, as the edge has them.

They change rarely, so an edge has all of them in memory and reads the changed ones every
``AUTHENTICATION_KEYS_SECONDS``. The card's decision never waits for them.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

import structlog

from actors.network.database import DatabaseUnavailableError, Run
from actors.periodic import PeriodicTask
from actors.vault import Vault, VaultError
from engine.limits import AUTHENTICATION_KEYS_SECONDS
from engine.threeds import KEY_BYTES

SEAL: Final = "authentication-key"
"""The purpose under which the vault seals them, with the programme's id as context."""

_OVERLAP: Final = timedelta(seconds=60)
"""A transaction that commits late has an older time than rows that were read before it."""
_BEGINNING: Final = datetime(1970, 1, 1, tzinfo=UTC)
_log = structlog.get_logger(__name__)


class AuthenticationKeys:
    """The keys by programme: the current one and its predecessor."""

    def __init__(self, run: Run, vault: Vault) -> None:
        """``run`` executes the statements of this package."""
        self._run = run
        self._vault = vault
        self._keys: dict[str, tuple[bytes, ...]] = {}
        self._newest: datetime | None = None
        self._refresher = PeriodicTask(
            "authentication-keys",
            self.refresh,
            AUTHENTICATION_KEYS_SECONDS,
            tolerated=(DatabaseUnavailableError,),
        )

    def start(self) -> None:
        """Read the keys now and then periodically."""
        self._refresher.start()

    async def stop(self) -> None:
        """Stop reading. Safe to call twice."""
        await self._refresher.stop()

    def of(self, programme_id: str) -> tuple[bytes, ...]:
        """The keys of a programme; empty if it has none. Raises ``DatabaseUnavailableError`` until the keys
        have been read once: without them a value that must be verified would be accepted by its form."""
        if self._newest is None:
            raise DatabaseUnavailableError
        return self._keys.get(programme_id, ())

    async def refresh(self) -> None:
        """Read the changed keys. Raises ``DatabaseUnavailableError``."""
        newest = self._newest or _BEGINNING
        for row in await self._run("find_authentication_keys", newest - _OVERLAP):
            self._keys[row["programme_id"]] = self._opened(row)
            newest = max(newest, row["changed_at"])
        self._newest = newest

    def _opened(self, row: Mapping[str, object]) -> tuple[bytes, ...]:
        sealed = [row["sealed"], row["previous_sealed"]]
        context = str(row["programme_id"]).encode("ascii")
        try:
            return tuple(self._vault.open(SEAL, bytes(each), context) for each in sealed if each is not None)  # type: ignore[call-overload]
        except VaultError:
            # The programme demands verification, so a key that no value fits replaces the unreadable ones.
            _log.error("authentication_key_unreadable", programme_id=row["programme_id"])
            return (secrets.token_bytes(KEY_BYTES),)
