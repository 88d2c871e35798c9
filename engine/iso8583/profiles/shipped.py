"""The profiles of this release."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from engine.iso8583.codec import Encodings
from engine.iso8583.profile import Profile
from engine.iso8583.profiles.build import build
from engine.iso8583.profiles.description import Description

DESCRIPTIONS: Final[Mapping[str, Description]] = {
    each.name: each
    for each in (
        Description(name="iso87-ascii"),
        Description(
            name="iso87-binary",
            encodings=Encodings(digits="bcd-right", bytes="raw", lengths="bcd", bitmap="raw"),
        ),
        Description(
            name="iso87-ebcdic",
            encodings=Encodings(text="cp037", bytes="raw", bitmap="raw"),
        ),
        Description(name="iso93-ascii", version="1993"),
    )
}
"""Each shipped profile, as a file would describe it."""

SHIPPED: Final[Mapping[str, Profile]] = {name: build(each) for name, each in DESCRIPTIONS.items()}

ISO87_ASCII: Final = SHIPPED["iso87-ascii"]
"""The default. Its messages have the form that the engine reads (``Profile.to_canonical``)."""
ISO87_BINARY: Final = SHIPPED["iso87-binary"]
ISO87_EBCDIC: Final = SHIPPED["iso87-ebcdic"]
ISO93_ASCII: Final = SHIPPED["iso93-ascii"]


class UnknownProfileError(ValueError):
    """No shipped profile has this name."""

    def __init__(self, name: str) -> None:
        super().__init__(f"{name!r} is not a shipped profile ({', '.join(SHIPPED)})")


def profile_named(name: str) -> Profile:
    """The shipped profile ``name``. Raises ``UnknownProfileError``."""
    profile = SHIPPED.get(name)
    if profile is None:
        raise UnknownProfileError(name)
    return profile
