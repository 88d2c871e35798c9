"""Card numbers: their check digit, their making and their masking.

A primary account number (PAN, ISO/IEC 7812) must never reach a log, an error or a repr. Masking is
therefore a property of the *type*: whoever prints a ``Pan``, or a container that holds one, gets a
constant. Only operations that mean the characters themselves (encoding, joining, slicing, comparing) see
them.
"""

from __future__ import annotations

from typing import Final, Self

PAN_DIGITS: Final = 16
"""Length of the numbers that are issued here; ISO/IEC 7812 allows up to 19, and the wire accepts 12 to 19."""

_MASK: Final = "****"
_DOUBLED: Final = (0, 2, 4, 6, 8, 1, 3, 5, 7, 9)
"""Digit sums of twice each digit (Luhn, ISO/IEC 7812-1 annex B)."""


class Masked(str):
    """Text that shows itself to nobody: ``repr``, ``str`` and formatting give a constant; ``encode``,
    ``join`` and slices do not."""

    __slots__ = ()

    def __new__(cls, value: str) -> Self:
        if type(value) is cls:
            return value
        # Without the slice, masking what is masked already would copy the mask.
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
    """How many free digits a number under ``iin`` has between the prefix and the check digit."""
    return PAN_DIGITS - 1 - len(iin)


def pan_under(iin: str, body: str) -> Pan:
    """The number ``iin`` + ``body`` + check digit; ``body`` has exactly ``body_digits(iin)`` digits, chosen
    by the caller.

    >>> pan_under("411111", "111111111").last4
    '1111'
    """
    if len(body) != body_digits(iin) or not (iin + body).isdecimal() or not (iin + body).isascii():
        raise ValueError(f"a number under this prefix needs {body_digits(iin)} further digits")
    return Pan(iin + body + luhn_digit(iin + body))
