"""Shipped profiles are found by their name."""

from __future__ import annotations

import pytest

from engine.iso8583.profiles import ISO87_ASCII, SHIPPED, UnknownProfileError, profile_named


def test_profiles_have_their_names() -> None:
    assert list(SHIPPED) == ["iso87-ascii", "iso87-binary", "iso87-ebcdic", "iso93-ascii"]
    assert all(profile_named(name).name == name for name in SHIPPED)
    assert profile_named("iso87-ascii") is ISO87_ASCII


def test_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UnknownProfileError, match=r"'visa'.*iso87-binary"):
        profile_named("visa")
