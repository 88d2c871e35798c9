"""Searches bytes for values that must not appear, in every encoding that a log or a dump could use."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

PIECE_OVERLAP_BYTES: Final = 512
"""Bytes kept of the previous piece, so that a value across two pieces is found."""
SHORTEST: Final = 8
"""Minimum length of a value in characters; a shorter one could occur in a large dump by chance."""
NUMBER_DIGITS: Final = 16


class LeakSearch:
    """Searches one place, piece by piece. ``values``, by name: may appear encoded; ``tokens``, by name:
    appear as text only; ``numbers``: card numbers; ``cvv2s``: three digits, which count only next to the
    name; ``control``: a value that the place must contain, as proof that the search works."""

    def __init__(
        self,
        values: Mapping[str, bytes],
        tokens: Mapping[str, bytes],
        numbers: Iterable[str] = (),
        cvv2s: Iterable[str] = (),
        *,
        control: bytes,
    ) -> None:
        self._forms = {name: (_texts(value), _encoded(value)) for name, value in values.items()}
        self._forms |= {name: (_texts(value), []) for name, value in tokens.items()}
        self._numbers = frozenset(number.encode() for number in numbers)
        self._issuer = _common_prefix(self._numbers)
        spelt = b"|".join(re.escape(each.encode()) for each in cvv2s) or b"(?!)"
        self._cvv2 = re.compile(rb"cvv2[^0-9a-z]{1,8}(?:" + spelt + rb")(?![0-9])")
        self._control = control
        self._tail = b""
        self.bytes = 0
        self.meaningful = False
        """Whether the control value was found."""
        self.found: set[str] = set()

    def feed(self, piece: bytes) -> None:
        """Search the next piece of the place."""
        self.bytes += len(piece)
        text = self._tail + piece
        lowered = text.lower()
        for name, (plain, encoded) in self._forms.items():
            if any(form in lowered for form in plain) or any(form in text for form in encoded):
                self.found.add(name)
        if not self._numbers.isdisjoint(self._like_numbers(text)):
            self.found.add("a card number")
        if self._cvv2.search(lowered):
            self.found.add("a CVV2")
        self.meaningful = self.meaningful or self._control in text
        self._tail = text[-PIECE_OVERLAP_BYTES:]

    def _like_numbers(self, text: bytes) -> Iterator[bytes]:
        """Candidates with the common prefix and the length of card numbers."""
        at = text.find(self._issuer) if self._issuer else -1
        while at >= 0:
            end = at + NUMBER_DIGITS
            if not text[at - 1 : at].isdigit() and not text[end : end + 1].isdigit():
                yield text[at:end]
            at = text.find(self._issuer, at + 1)


def _common_prefix(numbers: frozenset[bytes]) -> bytes:
    """The common prefix of all numbers."""
    if not numbers:
        return b""
    first, last = min(numbers), max(numbers)
    same = (at for at in range(NUMBER_DIGITS) if first[at] != last[at])
    return first[: next(same, NUMBER_DIGITS)]


def _texts(value: bytes) -> list[bytes]:
    """``value`` as text and in hexadecimal, in lower case."""
    assert len(value) >= SHORTEST, "too short: it could occur by chance"
    return [value.lower(), value.hex().encode()]


def _encoded(value: bytes) -> list[bytes]:
    """The base64 characters that depend on ``value`` only, for each offset at which it could be encoded."""
    forms = []
    for shift in range(3):
        first, end = -(-8 * shift // 6), 8 * (shift + len(value)) // 6
        forms.append(base64.b64encode(bytes(shift) + value)[first:end])
    return forms
