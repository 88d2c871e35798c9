"""The profiles of messages that links can use."""

from __future__ import annotations

from actors.network.links.entry import DEFAULT_PROFILE


class UnknownProfileError(ValueError):
    """There is no profile of this name."""


def profile_named(name: str) -> str:
    """The profile ``name``. Raises ``UnknownProfileError``."""
    if name != DEFAULT_PROFILE:
        raise UnknownProfileError(f"is no profile; the profile is {DEFAULT_PROFILE}")
    return name
