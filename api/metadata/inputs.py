"""External references and metadata in bodies."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field, StringConstraints

from api.http.fields import TEXT_PATTERN, example
from engine.limits import METADATA_KEY_CHARS_MAX, METADATA_KEYS_MAX, METADATA_VALUE_CHARS_MAX

_EXAMPLE: Final = {"cost_centre": "4711"}
# Lines and tabs are allowed; other control characters are not.
_VALUE_PATTERN: Final = r"^[^\x00-\x08\x0b-\x1f\x7f]*$"

Key = Annotated[str, StringConstraints(min_length=1, max_length=METADATA_KEY_CHARS_MAX, pattern=TEXT_PATTERN)]
Value = Annotated[str, StringConstraints(max_length=METADATA_VALUE_CHARS_MAX, pattern=_VALUE_PATTERN)]

Metadata = Annotated[
    dict[Key, Value], Field(max_length=METADATA_KEYS_MAX, default_factory=dict), example(_EXAMPLE)
]
"""All pairs of a new object."""
MetadataChange = Annotated[
    dict[Key, Value | None], Field(max_length=2 * METADATA_KEYS_MAX), example(_EXAMPLE)
]
"""The pairs to set; ``null`` removes a pair, and the others stay."""
ShownMetadata = Annotated[dict[str, str], example(_EXAMPLE)]
