"""Refuses an authorization before it is queued, for overload.

Returns the same bytes as ``encode(refusal(decode(payload), code))``; ``None`` for other messages, and for
malformed ones, which take the usual path. For profiles in ASCII it does so without decoding, at a tenth of
the cost (``tests/engine/iso8583/test_fast_decline.py`` compares both): the bitmap of the answer follows from
the bitmap of the request, and all other fields are copied from the request.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from itertools import groupby
from typing import Final

import msgspec

from engine.iso8583.codec import MTI_CHARS, DecodeError
from engine.iso8583.profile import Profile
from engine.iso8583.respond import refusal
from engine.iso8583.text_codec import Field, TextCodec, bitmap_chars, write_bitmap

_RESPONSE_CODE: Final = 39
_PLANS: Final = 1024
"""Cached plans of one profile."""

FastDecline = Callable[[bytes, str], bytes | None]
"""The answer with a response code to the original authorization in a payload, a frame without its length."""


def fast_decline(profile: Profile) -> FastDecline:
    """The fast path of ``profile``."""
    if isinstance(profile.codec, TextCodec):
        return _TextDecline(profile, profile.codec)
    return lambda payload, response_code: _decline(profile, payload, response_code)


def authorization_prefixes(profile: Profile) -> tuple[bytes, ...]:
    """The bytes with which original authorizations begin, after the message header."""
    return tuple(profile.codec.encode_mti(mti) for mti in profile.messages.authorizations)


def _decline(profile: Profile, payload: bytes, response_code: str) -> bytes | None:
    try:
        request = profile.decode(payload)
    except DecodeError:
        return None
    if request.mti not in profile.messages.authorizations:
        return None
    return profile.encode(refusal(request, response_code, profile))


class _Stretch(msgspec.Struct, frozen=True, gc=False):
    """Consecutive fields that are copied or skipped together: several of fixed length, or a variable one."""

    echoed: bool
    """Whether the answer repeats them."""
    size: int
    """Length of fixed fields, in characters."""
    prefix_chars: int = 0
    lengths: dict[str, int] | None = None


class _Plan(msgspec.Struct, frozen=True):
    """How to build the answer to requests with one bitmap."""

    head: str
    """MTI and bitmap of the answer."""
    before: tuple[_Stretch, ...]
    """Fields before the response code."""
    after: tuple[_Stretch, ...]


class _TextDecline:
    """``FastDecline`` of a profile in ASCII."""

    def __init__(self, profile: Profile, codec: TextCodec) -> None:
        self._profile = profile
        self._codec = codec
        self._echoed = frozenset(profile.echoed)
        self._authorizations = frozenset(profile.messages.authorizations)
        self._plan: Callable[[str, str], _Plan | None] = lru_cache(_PLANS)(self._find_plan)

    def __call__(self, payload: bytes, response_code: str) -> bytes | None:
        text = payload.decode("latin-1")
        mti = text[:MTI_CHARS]
        if mti not in self._authorizations or not (text.isascii() and text.isprintable()):
            return None
        at = MTI_CHARS + bitmap_chars(text)
        plan = self._plan(mti, text[MTI_CHARS:at])
        if plan is None:
            return None
        parts = [plan.head]
        at = _cut(text, at, plan.before, parts)
        parts.append(self._profile.codes.own(response_code, "authorization"))
        at = _cut(text, at, plan.after, parts)
        return "".join(parts).encode("ascii") if at == len(text) else None

    def _find_plan(self, mti: str, bitmap: str) -> _Plan | None:
        """The plan for requests with ``bitmap``; ``None`` if the bitmap is not valid in the profile."""
        try:
            fields = self._codec.layout(bitmap)
        except ValueError:
            return None
        echoed = [number for number, *_ in fields if number in self._echoed]
        return _Plan(
            self._profile.messages.response_mti(mti) + write_bitmap([*echoed, _RESPONSE_CODE]),
            self._stretches([field for field in fields if field[0] < _RESPONSE_CODE]),
            self._stretches([field for field in fields if field[0] >= _RESPONSE_CODE]),
        )

    def _stretches(self, fields: list[Field]) -> tuple[_Stretch, ...]:
        stretches = []
        for (echoed, fixed), group in groupby(
            fields, lambda each: (each[0] in self._echoed, each[2] is None)
        ):
            if fixed:
                stretches.append(_Stretch(echoed, sum(size for _, _, _, size, _ in group)))
            else:
                stretches += [_Stretch(echoed, 0, chars, lengths) for _, chars, lengths, _, _ in group]
        return tuple(stretches)


def _cut(text: str, at: int, stretches: tuple[_Stretch, ...], parts: list[str]) -> int:
    """Append the echoed fields to ``parts``. Returns the position after them, or a position beyond the end of
    ``text`` if a length is invalid."""
    for stretch in stretches:
        stop = at + stretch.size
        if stretch.lengths is not None:
            stop = at + stretch.prefix_chars
            length = stretch.lengths.get(text[at:stop])
            if length is None:
                return len(text) + 1
            stop += length
        if stretch.echoed:
            parts.append(text[at:stop])
        at = stop
    return at
