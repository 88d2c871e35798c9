"""Field positions in the three sizes of travel documents (ICAO Doc 9303, parts 4, 5 and 6).

Positions count from 0 over all rows joined, so each field is one slice.
"""

from __future__ import annotations

from typing import Final

import msgspec

NUMBER_LENGTH: Final = 9
"""Characters of a document number before it continues in the optional data."""

Span = tuple[int, int]


class Layout(msgspec.Struct, frozen=True):
    """One size of document. ``composite`` names the spans that the last check digit protects together."""

    name: str
    rows: int
    columns: int
    codes: str
    """First letters of the document code that this size may have."""
    names: Span
    number: Span
    nationality: Span
    birth: Span
    sex: int
    expiry: Span
    optional: Span
    """The optional data next to the document number; a long number continues here."""
    composite: tuple[Span, ...]
    composite_check: int
    optional_check: int | None = None
    optional_2: Span | None = None
    long_numbers: bool = True

    @property
    def length(self) -> int:
        """Characters in all rows."""
        return self.rows * self.columns


TD1: Final = Layout(
    name="TD1",
    rows=3,
    columns=30,
    codes="ACI",
    names=(60, 90),
    number=(5, 14),
    nationality=(45, 48),
    birth=(30, 36),
    sex=37,
    expiry=(38, 44),
    optional=(15, 30),
    optional_2=(48, 59),
    composite=((5, 30), (30, 37), (38, 45), (48, 59)),
    composite_check=59,
)
"""Cards of the size of a bank card: three rows of 30."""

TD2: Final = Layout(
    name="TD2",
    rows=2,
    columns=36,
    codes="ACI",
    names=(5, 36),
    number=(36, 45),
    nationality=(46, 49),
    birth=(49, 55),
    sex=56,
    expiry=(57, 63),
    optional=(64, 71),
    composite=((36, 46), (49, 56), (57, 71)),
    composite_check=71,
)
"""Larger cards: two rows of 36."""

TD3: Final = Layout(
    name="TD3",
    rows=2,
    columns=44,
    codes="P",
    names=(5, 44),
    number=(44, 53),
    nationality=(54, 57),
    birth=(57, 63),
    sex=64,
    expiry=(65, 71),
    optional=(72, 86),
    optional_check=86,
    composite=((44, 54), (57, 64), (65, 87)),
    composite_check=87,
    long_numbers=False,
)
"""Passports: two rows of 44."""

LAYOUTS: Final = {layout.length: layout for layout in (TD1, TD2, TD3)}

CODE: Final = (0, 2)
ISSUER: Final = (2, 5)
