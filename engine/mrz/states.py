"""Issuing states and nationalities in a machine-readable zone (ICAO Doc 9303-3, section 5)."""

from __future__ import annotations

from typing import Final

from iso3166 import countries_by_alpha3

SPECIMEN: Final = "UTO"
"""Utopia, the issuer of the standard's specimens."""

_STATE_ALIASES: Final = {
    "D": "DE",
    "GBD": "GB",
    "GBN": "GB",
    "GBO": "GB",
    "GBP": "GB",
    "GBS": "GB",
    "RKS": "XK",
    "UNK": "XK",
}
"""Codes that differ from ISO 3166-1, and the alpha-2 code of their state."""
_OTHER_CODES: Final = frozenset(
    {
        *("EUE", "UNO", "UNA", "XBA", "XIM", "XCC", "XCE", "XCO", "XEC", "XPO", "XES", "XMP", "XOM", "XDC"),
        *("XXA", "XXB", "XXC", "XXX", SPECIMEN),
    }
)
"""Organizations, persons without a state, and the specimen."""


def is_state(code: str) -> bool:
    """Whether ``code`` (without fillers) is a valid issuer or nationality."""
    return code in countries_by_alpha3 or code in _STATE_ALIASES or code in _OTHER_CODES


def alpha2_of(code: str) -> str | None:
    """The ISO 3166-1 alpha-2 code of a state; ``None`` for an organization or a stateless person."""
    country = countries_by_alpha3.get(code)
    return country.alpha2 if country else _STATE_ALIASES.get(code)
