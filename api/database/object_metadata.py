"""Reading the rows of external references and metadata (``api.metadata`` writes them)."""

from __future__ import annotations

from typing import Any, Final

import msgspec

COLUMN: Final = "(SELECT o.metadata FROM object_metadata o WHERE o.object_id = r.id) AS metadata"
"""For a SELECT list: the metadata of row ``r``, or NULL."""
COLUMNS: Final = (
    f"{COLUMN}, (SELECT o.external_ref FROM object_metadata o WHERE o.object_id = r.id) AS external_ref"
)
"""The metadata and the external reference of row ``r``."""
REFERENCE: Final = (
    "r.id IN (SELECT o.object_id FROM object_metadata o"
    " WHERE o.tenant_id = $1 AND o.live = $2 AND o.external_ref = ?)"
)
"""The condition that row ``r`` has an external reference; $1 and $2 are tenant and mode."""

MEMBERS: Final = ("external_ref", "metadata")

_decode = msgspec.json.Decoder(dict[str, str]).decode


class About(msgspec.Struct, frozen=True):
    """The reference and the metadata of one object."""

    external_ref: str | None = None
    metadata: dict[str, str] = {}

    @property
    def empty(self) -> bool:
        """Whether there is nothing to store."""
        return self.external_ref is None and not self.metadata

    def view(self) -> dict[str, Any]:
        """The members of the public representation."""
        return {"external_ref": self.external_ref, "metadata": self.metadata}


def about_of(row: Any) -> About:
    """The values of a row with ``COLUMNS``."""
    return About(row["external_ref"], shown_metadata(row))


def shown_metadata(row: Any) -> dict[str, str]:
    """The metadata of a row with ``COLUMN``."""
    return {} if row["metadata"] is None else _decode(row["metadata"])
