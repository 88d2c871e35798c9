"""The order of test files and their distribution to workers.

A file stays on one worker, because its tests share fixtures. All files that use the installation are one
unit, so only one worker starts one. Long units come first, so that no worker waits long for the other at the
end.
"""

from __future__ import annotations

from typing import Any, Final

import pytest
from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]

ONE_UNIT: Final = "tests/integration/"
LONGEST_FIRST: Final = (
    ONE_UNIT,
    "tests/ops/",
    "tests/loadtests/",
    "tests/conformance/",
    "tests/actors/",
    "tests/api/",
)
"""First, tests that start processes; then tests that use servers; all others only compute."""


def scheduling(config: pytest.Config, log: Any) -> Any:
    """Deals out units in the order of collection; the default of pytest-xdist is by number of tests."""
    config.option.loadscopereorder = False
    dealer = LoadFileScheduling(config, log)
    dealer._split_scope = unit_of
    return dealer


def unit_of(nodeid: str) -> str:
    """The unit of a test."""
    return ONE_UNIT if nodeid.startswith(ONE_UNIT) else nodeid.split("::", 1)[0]


def rank(nodeid: str) -> int:
    """The rank of a test's unit: smaller is earlier."""
    places = (at for at, folder in enumerate(LONGEST_FIRST) if nodeid.startswith(folder))
    return next(places, len(LONGEST_FIRST))
