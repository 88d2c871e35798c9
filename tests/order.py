"""In which order, and beside which others, files of tests are run by several workers.

A file stays on one worker, because its tests share what they have made; all files that use the installation
are one piece, so that one worker starts one. Pieces that take long come first: whatever is then left to the
end is short, and no worker waits long for the other.
"""

from __future__ import annotations

from typing import Any, Final

import pytest
from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]

ONE_PIECE: Final = "tests/integration/"
LONGEST_FIRST: Final = (
    ONE_PIECE,
    "tests/ops/",
    "tests/loadtests/",
    "tests/conformance/",
    "tests/actors/",
    "tests/api/",
)
"""Whose tests start processes, then those that talk to servers; anything else only computes."""


def scheduling(config: pytest.Config, log: Any) -> Any:
    """Deals out pieces in the order in which their tests were collected; pytest-xdist's own way would be the
    number of tests in each."""
    config.option.loadscopereorder = False
    dealer = LoadFileScheduling(config, log)
    dealer._split_scope = piece_of
    return dealer


def piece_of(nodeid: str) -> str:
    """The piece that a test belongs to."""
    return ONE_PIECE if nodeid.startswith(ONE_PIECE) else nodeid.split("::", 1)[0]


def rank(nodeid: str) -> int:
    """The place of a test's piece: smaller is earlier."""
    places = (at for at, folder in enumerate(LONGEST_FIRST) if nodeid.startswith(folder))
    return next(places, len(LONGEST_FIRST))
