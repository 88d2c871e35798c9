"""How tests are dealt out to workers."""

from __future__ import annotations

from pathlib import Path

from tests.order import LONGEST_FIRST, ONE_PIECE, piece_of, rank

ROOT = Path(__file__).parents[1]


def test_the_installation_is_used_by_one_worker_and_first_of_all() -> None:
    nodes = [
        "tests/engine/test_money.py::test_a",
        "tests/integration/test_wire.py::test_b",
        "tests/integration/test_load.py::test_c[0]",
        "tests/api/cards/test_cards.py::test_d",
    ]
    pieces = [piece_of(node) for node in sorted(nodes, key=rank)]
    assert pieces == [ONE_PIECE, ONE_PIECE, "tests/api/cards/test_cards.py", "tests/engine/test_money.py"]


def test_the_folders_are_there() -> None:
    assert all((ROOT / folder).is_dir() for folder in LONGEST_FIRST)
