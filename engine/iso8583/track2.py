"""Track 2 (DE35; EMV tag 57): ISO/IEC 7813 without sentinels.

Number, separator, expiry (YYMM), service code, discretionary data. A separator replaces an expiry or a
service code that the card does not have. Stanchion's cards lay out the discretionary data as Visa's do: key
index (1), PIN verification value (4), card verification value (3), zeros. The cards have no PIN, so the first
five are zeros as well.

The values stay in the edge: they are masked by type, and errors contain none of them.
"""

from __future__ import annotations

import re
from typing import Final, Literal

import msgspec

from engine.iso8583.elements import ElementError
from engine.pan import Masked, Pan

SERVICE_CODE: Final = "201"
"""Of issued cards: international, with a chip; authorization by normal rules; no restrictions and no PIN."""

VALUE_AT: Final = 5
"""Position of the card verification value in the discretionary data."""
VALUE_DIGITS: Final = 3
_TRACK_DIGITS: Final = 37
"""Length of track 2, of which DE35 is the whole."""
_FORMAT: Final = re.compile(
    r"(?P<pan>\d{12,19})[=D](?:(?P<expiry>\d{4})|[=D])(?:(?P<code>\d{3})|[=D])(?P<rest>\d*)F?", re.ASCII
)

TrackValue = Literal["cvv1", "icvv"]
"""The two values in track 2: ``cvv1`` on the magnetic stripe, ``icvv`` in the chip's copy. They differ, so a
stripe made from a chip's data is detected."""

_VALUES: Final[dict[str, TrackValue | None]] = {
    "05": "icvv",
    "07": "icvv",
    "02": None,
    "91": None,
    "95": None,
}
"""The value to expect, by the first two digits of DE22. ``None``: the terminal says that the value is
unreliable (02, 95) or computed for each payment (91). Every other code means the stripe."""


class Track2(msgspec.Struct, frozen=True, gc=False):
    """A parsed track. Its ``repr`` shows no values."""

    pan: Pan
    expiry: Masked | None
    """YYMM."""
    service_code: Masked | None
    value: Masked | None
    """The card verification value; ``None`` if the track is too short for one or has only zeros there."""
    kind: TrackValue | None = None
    """How ``value`` is computed; ``None`` if it cannot be verified."""


def read_track_2(text: str, pan: str, entry: str) -> Track2:
    """The track in DE35. ``entry``: the first two digits of DE22. Raises ``ElementError`` if it is malformed
    or names another card than ``pan``."""
    match = _FORMAT.fullmatch(text)
    if match is None:
        raise ElementError(35, "is no track 2")
    if match["pan"] != pan:
        raise ElementError(35, "names another card than DE2")
    rest: str = match["rest"]
    value = rest[VALUE_AT : VALUE_AT + VALUE_DIGITS]
    complete = len(value) == VALUE_DIGITS and bool(rest.strip("0"))
    return Track2(
        Pan(match["pan"]),
        _masked(match["expiry"]),
        _masked(match["code"]),
        Masked(value) if complete else None,
        _VALUES.get(entry, "cvv1"),
    )


def write_track_2(pan: str, expiry: str, value: str) -> Masked:
    """The track of an issued card; ``expiry`` is YYMM, ``value`` the CVV1 or the iCVV."""
    # ``join`` uses the characters of masked values; formatting would use the mask.
    track = "".join((pan, "=", expiry, SERVICE_CODE, "0" * VALUE_AT, value))
    return Masked(track.ljust(_TRACK_DIGITS, "0"))


def _masked(text: str | None) -> Masked | None:
    return None if text is None else Masked(text)
