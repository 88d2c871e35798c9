"""Random messages of a dialect, the same for each seed: they fill any field with any value of its kind.

Only ``random()`` is used, whose sequence Python guarantees for a seed.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, Final, Literal

from tests.support.conformance.dialects import Dialect, Document

Kind = Literal["digits", "track", "bytes", "text"]

_CHARACTERS: Final[dict[Kind, str]] = {
    "digits": "0123456789",
    "track": "0123456789D",
    "bytes": "0123456789ABCDEF",
    "text": "".join(chr(code) for code in range(0x20, 0x7F)),
}
_FIELDS_MAX: Final = 40
_LONG: Final = 60
"""Most values of long fields are shorter than this; some have any length."""
_MTIS: Final = ("0100", "0121", "0230", "0420", "0810", "1100", "1220", "1430", "1804")


def messages(
    dialect: Dialect, count: int, seed: int, *, separators: bool = True
) -> Iterator[tuple[str, Document]]:
    """``count`` messages: MTI and fields. ``separators``: whether tracks have separators."""
    rng = random.Random(seed)
    numbers = sorted(int(key) for key in dialect.spec if key.isdecimal() and key not in ("1", "65"))
    kinds = {number: dialect.kind(number) for number in numbers}
    if not separators:
        kinds = {number: "digits" if kind == "track" else kind for number, kind in kinds.items()}
    for _ in range(count):
        wanted = {numbers[_below(rng, len(numbers))] for _ in range(1 + _below(rng, _FIELDS_MAX))}
        yield (
            _MTIS[_below(rng, len(_MTIS))],
            {str(number): _value(rng, kinds[number], dialect.spec[str(number)]) for number in sorted(wanted)},
        )


def _value(rng: random.Random, kind: Kind, entry: Any) -> str:
    units = entry["max_len"]
    doubled = kind == "bytes" and entry["data_enc"] == "b"
    if entry["len_type"]:
        limit = units if _below(rng, 20) == 0 else min(units, _LONG)
        units = _below(rng, limit + 1)
        if kind == "bytes" and not doubled:
            units -= units % 2
    characters = _CHARACTERS[kind]
    return "".join(characters[_below(rng, len(characters))] for _ in range(2 * units if doubled else units))


def _below(rng: random.Random, limit: int) -> int:
    return int(rng.random() * limit)
