"""Custody of cardholders' personal data: one data key for each cardholder, sealed under the master key.

Each value is sealed with the cardholder's data key and bound to tenant, cardholder and field, so a value
copied to another row or column does not open. Erasing a cardholder destroys the data key. The e-mail address
also has a keyed hash, by which rows with an equal address can be found.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Mapping
from typing import Any, Final, TypeAlias

import asyncpg
import msgspec
import structlog

from actors.vault import DataKey, Vault

KEY_PURPOSE: Final = "cardholder-data-key"
EMAIL_PURPOSE: Final = "cardholder-email"

FIELDS: Final = ("given_name", "family_name", "email", "phone", "date_of_birth", "address")
"""Members with personal data; ``address`` is an object, the others are texts."""
COLUMNS: Final = ("data_key", *(f"{name}_sealed" for name in FIELDS), "email_digest")
"""Columns of ``seal_person``, in its order."""

# As text: the classes are generic in the type stubs alone.
Handle: TypeAlias = "asyncpg.pool.PoolConnectionProxy[asyncpg.Record] | asyncpg.Connection[asyncpg.Record]"

# A row that a process of the previous release has written has clear values and no data key. ``to_jsonb``
# names no column, so the statement works before and after the migration that drops the clear columns.
_CLEAR: Final = (
    "CASE WHEN {row}.data_key IS NULL AND {row}.erased_at IS NULL THEN to_jsonb({row}) END AS clear"
)
_CLEAR_COLUMNS: Final = """
    SELECT EXISTS (SELECT FROM pg_attribute
                   WHERE attrelid = 'cardholders'::regclass AND attname = 'given_name' AND NOT attisdropped)
"""
_WRITE_CLEAR: Final = """
    UPDATE cardholders
    SET given_name = $2, family_name = $3, email = $4, phone = $5, date_of_birth = $6::text::date,
        address = $7
    WHERE id = $1::uuid
"""


_log = structlog.get_logger("api.cardholders")


def selected(row: str, fields: Collection[str] = FIELDS) -> str:
    """The SELECT list that ``People`` needs to open ``fields`` of the cardholder's row named ``row``."""
    sealed = (f"{row}.{name}_sealed" for name in fields)
    return ", ".join((f"{row}.data_key", *sealed, _CLEAR.format(row=row)))


def email_digest(vault: Vault, tenant_id: str, live: bool, email: str) -> bytes:
    """The keyed hash of an e-mail address: 32 bytes, different for each tenant and mode. Case does not
    count."""
    normal = unicodedata.normalize("NFC", email).lower()
    return vault.digest(EMAIL_PURPOSE, f"{tenant_id}\0{int(live)}\0{normal}".encode())


def seal_person(
    vault: Vault,
    tenant_id: str,
    live: bool,
    cardholder_id: str,
    person: Mapping[str, Any],
    wrapped: bytes | None = None,
) -> tuple[bytes | None, ...]:
    """The values of ``COLUMNS`` for ``person``, which has a member for each of ``FIELDS``.

    ``wrapped``: the cardholder's data key, if there is one already.
    """
    context = cardholder_id.encode()
    if wrapped is None:
        key, wrapped = vault.new_data_key(KEY_PURPOSE, context)
    else:
        key = vault.data_key(KEY_PURPOSE, wrapped, context)
    sealed = (
        None if text is None else key.seal(text.encode(), _context(tenant_id, cardholder_id, name))
        for name, text in zip(FIELDS, clear_values(person), strict=True)
    )
    return wrapped, *sealed, email_digest(vault, tenant_id, live, person["email"])


def log_unreadable(cardholder_id: str) -> None:
    """Log that values do not open: they were altered, or their key is missing."""
    _log.error("personal data of a cardholder cannot be opened", cardholder=cardholder_id)


class People:
    """Opens the personal data of rows with the columns of ``selected``, for one request: a data key is
    unwrapped once, however many rows name its cardholder."""

    def __init__(self, vault: Vault) -> None:
        self._vault = vault
        self._keys: dict[str, DataKey] = {}

    def of(
        self,
        row: Any,
        fields: Collection[str] = FIELDS,
        *,
        cardholder_id: str = "id",
        tenant_id: str = "tenant_id",
    ) -> dict[str, Any]:
        """The values of ``fields``; all of them are ``None`` for an erased cardholder.

        ``cardholder_id`` and ``tenant_id`` name the row's columns. Raises VaultError for a value that was
        altered or moved.
        """
        id_, tenant, wrapped = row[cardholder_id], row[tenant_id], row["data_key"]
        if wrapped is None:
            clear = msgspec.json.decode(row["clear"]) if row["clear"] else {}
            return {name: _shown(name, clear.get(name) or None) for name in fields}
        key = self._keys.get(id_)
        if key is None:
            key = self._keys[id_] = self._vault.data_key(KEY_PURPOSE, wrapped, id_.encode())
        opened = {}
        for name in fields:
            sealed = row[f"{name}_sealed"]
            text = None if sealed is None else key.open(sealed, _context(tenant, id_, name)).decode()
            opened[name] = _shown(name, text)
        return opened


class ClearColumns:
    """The clear columns of the previous release, until a migration drops them.

    Processes of that release read them, so the API writes the same values there as long as they exist.
    """

    def __init__(self) -> None:
        self._dropped = False

    async def write(self, connection: Handle, cardholder_id: str, person: Mapping[str, Any] | None) -> None:
        """Write ``person``, or blanks where it is ``None``, if the columns still exist.

        The transaction has locked the cardholder's row, so no migration can drop the columns meanwhile. In an
        existing row, write these columns before the sealed ones: a trigger clears the sealed values when only
        the clear columns change.
        """
        if self._dropped:
            return
        if not await connection.fetchval(_CLEAR_COLUMNS):
            self._dropped = True
            return
        values = ("", "", "", None, None, None) if person is None else clear_values(person)
        await connection.execute(_WRITE_CLEAR, cardholder_id, *values)


def clear_values(person: Mapping[str, Any]) -> tuple[str | None, ...]:
    """The texts of ``person`` in the order of ``FIELDS``."""
    return tuple(_text(person[name]) for name in FIELDS)


def _text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else msgspec.json.encode(value).decode()


def _shown(name: str, text: str | None) -> Any:
    return msgspec.json.decode(text) if name == "address" and text is not None else text


def _context(tenant_id: str, cardholder_id: str, field: str) -> bytes:
    return f"{tenant_id}\0{cardholder_id}\0{field}".encode()
