"""The profiles that Stanchion ships, and profiles from TOML files.

- ``description`` is a profile as a file describes it; ``build`` makes the value from it.
- ``shipped`` has the four profiles of this release; ``profile_named`` finds one by its name.
- ``parse`` reads the text of a file. ``actors.network.profile_files`` reads the file itself.
"""

from engine.iso8583.profiles.parse import ProfileError, parse_profile
from engine.iso8583.profiles.shipped import (
    ISO87_ASCII,
    ISO87_BINARY,
    ISO87_EBCDIC,
    ISO93_ASCII,
    SHIPPED,
    UnknownProfileError,
    profile_named,
)

__all__ = [
    "ISO87_ASCII",
    "ISO87_BINARY",
    "ISO87_EBCDIC",
    "ISO93_ASCII",
    "SHIPPED",
    "ProfileError",
    "UnknownProfileError",
    "parse_profile",
    "profile_named",
]
