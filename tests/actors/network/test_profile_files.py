"""Profiles are found by their name or in a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from actors.network.profile_files import find_profile, load_profile
from engine.iso8583.profiles import ISO87_BINARY, ProfileError, UnknownProfileError
from engine.limits import PROFILE_FILE_BYTES_MAX


def test_shipped_profile_is_found_by_its_name(tmp_path: Path) -> None:
    assert find_profile("iso87-binary", tmp_path) is ISO87_BINARY
    with pytest.raises(UnknownProfileError):
        find_profile("iso87", tmp_path)


def test_file_is_found_in_the_folder(tmp_path: Path) -> None:
    (tmp_path / "acme.toml").write_text('name = "acme"\nbased_on = "iso87-ebcdic"\n')
    assert find_profile("acme.toml", tmp_path).name == "acme"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, "No such file"),
        (b"\xff", "UTF-8"),
        (b" " * (PROFILE_FILE_BYTES_MAX + 1), "more than"),
        (b"name = 1", "Expected `str`"),
    ],
)
def test_unusable_file_is_refused(tmp_path: Path, content: bytes | None, problem: str) -> None:
    path = tmp_path / "acme.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ProfileError, match=f"^{path}:1: .*{problem}"):
        load_profile(path)
