"""Comparison of names in different spellings and alphabets.

A machine-readable zone spells each national letter in one of several recommended ways and may truncate names;
a form has diacritics, hyphens and apostrophes. The comparison is exact, not fuzzy: two names are equal, one
is part of the other, or they differ."""

from __future__ import annotations

import re
import unicodedata
from enum import Enum
from typing import Final

from engine.mrz.letters import spellings_of
from engine.mrz.zone import Zone

_BETWEEN_WORDS: Final = re.compile(r"[\s\-/\u2010-\u2015]+")
_INSIDE_WORDS: Final = re.compile(r"['’ʼ`´.,\u02b9\u02bb\u02bf\u02be]")

Spellings = tuple[tuple[str, ...], ...]
"""The possible spellings of each letter of a word."""


class Likeness(Enum):
    """Agreement of two names, from most to least."""

    SAME = "same"
    PARTIAL = "partial"
    DIFFERENT = "different"
    INCOMPARABLE = "incomparable"
    """One name uses a script for which the standard has no spellings."""


def compare_with_zone(given_name: str, family_name: str, zone: Zone) -> Likeness:
    """Agreement of the names in a form with those in a zone.

    The family name must equal that of the zone. The given names may be the first of those in the zone,
    because documents list all given names and people use one. A name that the zone may have truncated must
    begin with the zone's text."""
    family, given = spelled(family_name), spelled(given_name)
    if family is None or given is None:
        return Likeness.INCOMPARABLE
    of_family = _likeness(family, zone.surname, cut=zone.names_cut)
    of_given = _likeness(given, zone.given, cut=zone.names_cut, first_suffice=True)
    if of_family is of_given is Likeness.SAME:
        return Likeness.SAME
    if Likeness.DIFFERENT in (of_family, of_given):
        swapped = {_likeness(family, zone.given), _likeness(given, zone.surname)}
        return Likeness.PARTIAL if swapped == {Likeness.SAME} else Likeness.DIFFERENT
    return Likeness.PARTIAL


def compare_with_record(one: str, other: str) -> Likeness:
    """Agreement of two names from forms."""
    first, second = spelled(one), spelled(other)
    if first is None or second is None:
        return Likeness.SAME if _plain(one) == _plain(other) else Likeness.INCOMPARABLE
    if _folds(_joined(first)) & _folds(_joined(second)):
        return Likeness.SAME
    shared = any(_folds(word) & _folds(another) for word in first for another in second)
    return Likeness.PARTIAL if shared else Likeness.DIFFERENT


def spelled(name: str) -> tuple[Spellings, ...] | None:
    """The words of ``name``, each letter with its possible spellings; ``None`` when a letter has none."""
    words: list[Spellings] = []
    for word in _BETWEEN_WORDS.split(_plain(name)):
        letters = [spellings_of(letter) for letter in word]
        if None in letters:
            return None
        if letters:
            words.append(tuple(letter for letter in letters if letter is not None))
    return tuple(words) or None


def matches(letters: Spellings, text: str, *, cut: bool = False) -> bool:
    """Whether ``text`` is one of the spellings of ``letters``; with ``cut``, the beginning of one."""
    reached = {0}
    for spellings in letters:
        if cut and _ends_inside(reached, spellings, text):
            return True
        reached = {
            at + len(spelling) for at in reached for spelling in spellings if text.startswith(spelling, at)
        }
    return len(text) in reached


def _ends_inside(reached: set[int], spellings: tuple[str, ...], text: str) -> bool:
    """Whether ``text`` ends at or within the next letter."""
    return any(spelling.startswith(text[at:]) for at in reached for spelling in spellings if at <= len(text))


def _likeness(
    words: tuple[Spellings, ...], zone: tuple[str, ...], *, cut: bool = False, first_suffice: bool = False
) -> Likeness:
    if not zone:
        return Likeness.PARTIAL  # documents of people with a single name have no given names
    if matches(_joined(words), "".join(zone), cut=cut):
        return Likeness.SAME
    if cut and len(zone) <= len(words) and _initials(words, zone):
        return Likeness.SAME
    beginnings = ("".join(zone[:count]) for count in range(1, len(zone)))
    if any(matches(_joined(words), beginning) for beginning in beginnings):
        return Likeness.SAME if first_suffice else Likeness.PARTIAL
    shared = any(matches(word, text) for word in words for text in zone)
    return Likeness.PARTIAL if shared else Likeness.DIFFERENT


def _initials(words: tuple[Spellings, ...], zone: tuple[str, ...]) -> bool:
    """Whether each word of a cut zone begins its word (9303-3, section 4.6, lets issuers keep initials)."""
    return all(matches(word, text, cut=True) for word, text in zip(words, zone, strict=False))


def _joined(words: tuple[Spellings, ...]) -> Spellings:
    return tuple(letter for word in words for letter in word)


def _folds(letters: Spellings) -> set[str]:
    """The first and the shortest spelling: a name with diacritics shares one of them with the plain name."""
    return {
        "".join(letter[0] for letter in letters),
        "".join(min(letter, key=len) for letter in letters),
    }


def _plain(name: str) -> str:
    """``name`` in upper case, composed (NFC), without punctuation inside words."""
    return _INSIDE_WORDS.sub("", unicodedata.normalize("NFC", unicodedata.normalize("NFKC", name).upper()))
