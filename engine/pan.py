"""Card numbers: their check digit, their construction and their masking.

A primary account number (PAN, ISO/IEC 7812) must never reach a log, an error or a repr. Masking is therefore
a property of the *type*: a printed ``Pan``, or a printed container of one, is a constant. Only operations on
the characters (encoding, joining, slicing, comparing) see the number.
"""

from __future__ import annotations

from typing import Final, Self

PAN_DIGITS: Final = 16
"""Length of issued numbers; ISO/IEC 7812 allows up to 19, and the wire accepts 12 to 19."""

_MASK: Final = "****"
_DOUBLED: Final = (0, 2, 4, 6, 8, 1, 3, 5, 7, 9)
"""Digit sums of twice each digit (Luhn, ISO/IEC 7812-1 annex B)."""


class Masked(str):
    """Masked text: ``repr``, ``str`` and formatting give a constant; ``encode``, ``join`` and slices give the
    characters."""

    __slots__ = ()

    def __new__(cls, value: str) -> Self:
        if type(value) is cls:
            return value
        # ``str()`` of a masked value is the mask; a slice is the characters.
        return str.__new__(cls, value if type(value) is str else value[:])

    def __repr__(self) -> str:
        return f"{type(self).__name__}({_MASK})"

    def __str__(self) -> str:
        return _MASK

    def __format__(self, format_spec: str) -> str:
        return _MASK


class Pan(Masked):
    """A primary account number (ISO 8583 DE2)."""

    __slots__ = ()

    @property
    def last4(self) -> str:
        """The last four digits, which may be shown."""
        return self[-4:]


def luhn_digit(body: str) -> str:
    """The check digit that completes ``body`` (ASCII digits)."""
    total = 0
    for place, digit in enumerate(reversed(body)):
        value = ord(digit) - 48
        total += value if place % 2 else _DOUBLED[value]
    return str(-total % 10)


def luhn_valid(number: str) -> bool:
    """Whether ``number`` is ASCII digits that end in their check digit."""
    return number.isascii() and number.isdigit() and luhn_digit(number[:-1]) == number[-1]


def body_digits(iin: str) -> int:
    """The number of digits between the prefix ``iin`` and the check digit."""
    return PAN_DIGITS - 1 - len(iin)


def build_pan(iin: str, body: str) -> Pan:
    """The number ``iin`` + ``body`` + check digit; ``body`` has exactly ``body_digits(iin)`` digits, chosen
    by the caller.

    >>> build_pan("411111", "111111111").last4
    '1111'
    """
    if len(body) != body_digits(iin) or not (iin + body).isdecimal() or not (iin + body).isascii():
        raise ValueError(f"a number under this prefix needs {body_digits(iin)} further digits")
    return Pan(iin + body + luhn_digit(iin + body))
