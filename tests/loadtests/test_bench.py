"""The command line's choice of workloads."""

from __future__ import annotations

import pytest

from loadtests.bench import chosen, count, positive
from loadtests.slices import OURS
from loadtests.workloads import WORKLOADS


def test_nothing_chosen_is_everything() -> None:
    assert chosen("") == list(WORKLOADS)


def test_workloads_are_chosen_by_name_in_the_order_given() -> None:
    assert [each.name for each in chosen("wire-open,router")] == ["wire-open", "router"]


def test_an_unknown_workload_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="no such workload: wier; known are router, "):
        chosen("wire,wier")


def test_names_are_unique_and_every_workload_is_ours() -> None:
    assert len({each.name for each in WORKLOADS}) == len(WORKLOADS)
    assert all(OURS in each.loads for each in WORKLOADS)


@pytest.mark.parametrize("text", ["0", "-1", "x", "", "1.5"])
def test_counts_are_whole_numbers_from_one_on(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - argparse makes the message
        count(text)


@pytest.mark.parametrize("text", ["0", "-1", "nan", "inf", "x"])
def test_lengths_are_positive(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - argparse makes the message
        positive(text)
