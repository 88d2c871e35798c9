"""Looking for values that must not be there, in every form in which a log or a dump could hold them."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

PIECE_OVERLAP_BYTES: Final = 512
"""Kept of what came before, so that nothing hides between two pieces."""
SHORTEST: Final = 8
"""Characters below which chance could write them into a large dump."""
NUMBER_DIGITS: Final = 16


class LeakSearch:
    """Goes through one place, piece by piece. ``values`` by what they are called, which may have been encoded
    by whoever wrote them; ``tokens``, which are text as they are; ``numbers``: card numbers; ``cvv2s``: three
    digits each, which mean something only beside their name; ``control``: what this place must hold, so that
    finding nothing else means something."""

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
        self._issuer = _beginning(self._numbers)
        spelt = b"|".join(re.escape(each.encode()) for each in cvv2s) or b"(?!)"
        self._cvv2 = re.compile(rb"cvv2[^0-9a-z]{1,8}(?:" + spelt + rb")(?![0-9])")
        self._control = control
        self._tail = b""
        self.bytes = 0
        self.meaningful = False
        """Whether the control has been found."""
        self.found: set[str] = set()

    def feed(self, piece: bytes) -> None:
        """Look at the next piece of the place."""
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
        """What begins as all card numbers do, and has their length."""
        at = text.find(self._issuer) if self._issuer else -1
        while at >= 0:
            end = at + NUMBER_DIGITS
            if not text[at - 1 : at].isdigit() and not text[end : end + 1].isdigit():
                yield text[at:end]
            at = text.find(self._issuer, at + 1)


def _beginning(numbers: frozenset[bytes]) -> bytes:
    """What all of them begin with."""
    if not numbers:
        return b""
    first, last = min(numbers), max(numbers)
    same = (at for at in range(NUMBER_DIGITS) if first[at] != last[at])
    return first[: next(same, NUMBER_DIGITS)]


def _texts(value: bytes) -> list[bytes]:
    """How ``value`` looks in a text and in hexadecimal, in lower case."""
    assert len(value) >= SHORTEST, "chance could write it"
    return [value.lower(), value.hex().encode()]


def _encoded(value: bytes) -> list[bytes]:
    """The characters of base64 that ``value`` alone decides, wherever it begins in what was encoded."""
    forms = []
    for shift in range(3):
        first, end = -(-8 * shift // 6), 8 * (shift + len(value)) // 6
        forms.append(base64.b64encode(bytes(shift) + value)[first:end])
    return forms
