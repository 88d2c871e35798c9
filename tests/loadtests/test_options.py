"""Options shared by the load tests."""

from __future__ import annotations

import pytest

from loadtests.options import count, positive


@pytest.mark.parametrize("text", ["0", "-1", "x", "", "1.5"])
def test_counts_are_integers_of_at_least_one(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - argparse makes the message
        count(text)


@pytest.mark.parametrize("text", ["0", "-1", "nan", "inf", "x"])
def test_lengths_are_positive(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - argparse makes the message
        positive(text)
