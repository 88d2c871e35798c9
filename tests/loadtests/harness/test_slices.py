"""The growth of tables, and the decisions that it is divided by."""

from __future__ import annotations

from loadtests.figures import Samples, TableGrowth
from loadtests.harness.slices import decided, growth, table_bytes
from loadtests.harness.systems import System


def test_growth_is_of_the_tables_that_changed() -> None:
    before = {"journal": [8192, 16384], "cards": [8192, 8192], "pans": [0, 8192]}
    after = {"journal": [24576, 32768], "cards": [8192, 8192], "pans": [0, 16384], "made": [8192, 0]}
    assert growth(before, after) == {
        "journal": TableGrowth(16384, 16384),
        "pans": TableGrowth(0, 8192),
        "made": TableGrowth(8192, 0),
    }


def test_decisions_of_a_sampled_load_are_its_answers() -> None:
    assert decided(Samples(started=[1.0], done=[2.0], approved=40, refused=2, partial=True)) == 42
    assert decided(Samples(started=[1.0, 1.0], done=[2.0, 2.0], approved=1)) == 2


async def test_a_system_without_tables_has_no_sizes() -> None:
    assert await table_bytes(System("Redis script", (1,), {})) == {}
