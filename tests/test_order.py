"""The distribution of tests to workers."""

from __future__ import annotations

from pathlib import Path

from tests.order import LONGEST_FIRST, ONE_UNIT, rank, unit_of

ROOT = Path(__file__).parents[1]


def test_one_worker_runs_all_integration_tests_first() -> None:
    nodes = [
        "tests/engine/test_money.py::test_a",
        "tests/integration/test_wire.py::test_b",
        "tests/integration/test_load.py::test_c[0]",
        "tests/api/cards/test_cards.py::test_d",
    ]
    units = [unit_of(node) for node in sorted(nodes, key=rank)]
    assert units == [ONE_UNIT, ONE_UNIT, "tests/api/cards/test_cards.py", "tests/engine/test_money.py"]


def test_the_folders_exist() -> None:
    assert all((ROOT / folder).is_dir() for folder in LONGEST_FIRST)
