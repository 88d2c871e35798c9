"""Profiles by name or file, as a deployer refers to them."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from engine.iso8583.profile import Profile
from engine.iso8583.profiles import ProfileError, parse_profile, profile_named
from engine.limits import PROFILE_FILE_BYTES_MAX

SUFFIX: Final = ".toml"


def load_profile(path: Path) -> Profile:
    """The profile in the TOML file ``path``. Raises ``ProfileError``."""
    try:
        with path.open("rb") as file:
            content = file.read(PROFILE_FILE_BYTES_MAX + 1)
    except OSError as error:
        raise ProfileError(str(path), 1, "", error.strerror or "cannot be read") from None
    if len(content) > PROFILE_FILE_BYTES_MAX:
        raise ProfileError(str(path), 1, "", f"has more than {PROFILE_FILE_BYTES_MAX} bytes")
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        raise ProfileError(str(path), 1, "", "is not UTF-8") from None
    return parse_profile(text, str(path))


def find_profile(reference: str, folder: Path) -> Profile:
    """A shipped profile by its name, or the profile in a file: its path ends in ``.toml`` and is relative to
    ``folder``. Raises ``ProfileError`` or ``UnknownProfileError``."""
    if reference.endswith(SUFFIX):
        return load_profile(folder / reference)
    return profile_named(reference)
