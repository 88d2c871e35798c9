"""The message type indicators of a profile: which exist, what they mean, and which answers they get."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

import msgspec

Function = Literal["authorization", "advice", "presentment", "reversal", "network_management"]
Version = Literal["1987", "1993"]

_VERSION_DIGITS: Final[Mapping[Version, str]] = {"1987": "0", "1993": "1"}
_ORIGINALS: Final = "024"
"""Origin digits of originals; the next digit marks their repeat. 4: origin "other" of the 1993 version."""

MTIS_1987: Final[Mapping[Function, tuple[str, ...]]] = {
    "authorization": ("0100",),
    "advice": ("0120",),
    "presentment": ("0220",),
    "reversal": ("0400", "0420"),
    "network_management": ("0800",),
}
MTIS_1993: Final[Mapping[Function, tuple[str, ...]]] = {
    "authorization": ("1100",),
    "advice": ("1120",),
    "presentment": ("1220",),
    "reversal": ("1400", "1420"),
    "network_management": ("1804", "1800"),
}
_CANONICAL: Final = {function: mtis[0] for function, mtis in MTIS_1987.items()}


class MessageType(msgspec.Struct, frozen=True):
    """One MTI that the edge accepts."""

    function: Function
    repeat: bool
    response: str
    """MTI of the answer; equal for an original and its repeats."""
    canonical: str
    """MTI of the same message in the 1987 version."""


class MessageTypes:
    """The requests of a profile: original MTIs for each function, of one version."""

    def __init__(self, version: Version, mtis: Mapping[Function, tuple[str, ...]]) -> None:
        """Raises ``ValueError`` for an MTI that is not an original request of ``version``, or has two
        functions."""
        self._version = _VERSION_DIGITS[version]
        self._first = {function: originals[0] for function, originals in mtis.items() if originals}
        self.requests: dict[str, MessageType] = {}
        self._answers: dict[str, str] = {}
        for function, originals in mtis.items():
            for mti in originals:
                self._add(function, mti)
        self.presentments: Final = frozenset(
            mti for mti, known in self.requests.items() if known.function == "presentment"
        )
        self.authorizations: Final = tuple(mtis.get("authorization", ()))
        """Original authorizations, the only messages that are refused under overload."""

    def is_request(self, mti: str) -> bool:
        """Whether ``mti`` expects an answer: a request (function 0) or an advice (function 2) of this
        version, original or repeat, also of a class that the profile does not have."""
        if mti in self.requests:
            return True
        return mti[0] == self._version and mti[2] in "02" and mti[3] in "01"

    def response_mti(self, mti: str) -> str:
        """The MTI of the answer to a request; equal for an original and its repeats."""
        known = self.requests.get(mti)
        return _response_mti(mti) if known is None else known.response

    def canonical_answer(self, mti: str) -> str:
        """The MTI in the 1987 version of an answer."""
        return self._answers.get(mti, f"0{mti[1:3]}0")

    def is_repeat(self, mti: str) -> bool:
        """Whether ``mti`` is the repeat of an earlier message (``0101``, ``0121``, ``0401``)."""
        return mti[3] not in _ORIGINALS

    def own_mti(self, canonical: str) -> str:
        """The MTI of this profile for one of the 1987 version, original or repeat."""
        original = f"{canonical[:3]}0"
        function = _FUNCTIONS[original]
        equal = (
            mti
            for mti, known in self.requests.items()
            if known.function == function and not known.repeat and known.canonical == original
        )
        own = next(equal, self._first[function])
        return own if canonical == original else f"{own[:3]}{int(own[3]) + 1}"

    def _add(self, function: Function, mti: str) -> None:
        if len(mti) != 4 or not (mti.isascii() and mti.isdecimal()):
            raise ValueError(f"{mti!r} is not four digits")
        if mti[0] != self._version or mti[2] not in "02" or mti[3] not in _ORIGINALS:
            raise ValueError(f"{mti} is not an original request or advice that starts with {self._version}")
        if mti in self.requests:
            raise ValueError(f"{mti} has two functions")
        canonical = f"0{mti[1:3]}0"
        if _FUNCTIONS.get(canonical) != function:
            canonical = _CANONICAL[function]
        response = _response_mti(mti)
        repeat = f"{mti[:3]}{int(mti[3]) + 1}"
        self._answers[response] = _response_mti(canonical)
        self.requests[mti] = MessageType(function, False, response, canonical)
        self.requests[repeat] = MessageType(function, True, response, f"{canonical[:3]}1")


_FUNCTIONS: Final[Mapping[str, Function]] = {
    mti: function for function, mtis in MTIS_1987.items() for mti in mtis
}


def _response_mti(mti: str) -> str:
    """The next function, of the same origin.

    >>> _response_mti("0121")
    '0130'
    """
    origin = int(mti[3])
    return f"{mti[:2]}{int(mti[2]) + 1}{origin - origin % 2}"
