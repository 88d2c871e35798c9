"""The command line's choice of workloads."""

from __future__ import annotations

import pytest

from loadtests.choices import arguments, chosen, chosen_rivals, not_compared
from loadtests.harness.systems import BATCHES, OURS, ROW_LOCKS
from loadtests.workloads import WORKLOADS


def test_no_choice_selects_every_workload() -> None:
    assert chosen("") == list(WORKLOADS)


def test_workloads_are_chosen_by_name_in_the_order_given() -> None:
    assert [each.name for each in chosen("wire-open,router")] == ["wire-open", "router"]


def test_an_unknown_workload_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="no such workload: wier; known are router, "):
        chosen("wire,wier")


def test_names_are_unique_and_stanchion_runs_every_workload() -> None:
    assert len({each.name for each in WORKLOADS}) == len(WORKLOADS)
    assert all(OURS in each.loads for each in WORKLOADS)


def test_a_shape_is_compared_with_a_workload_of_the_same_systems() -> None:
    known = {each.name: each for each in WORKLOADS}
    for each in WORKLOADS:
        if each.uniform is not None:
            assert set(each.loads) <= set(known[each.uniform].loads)


def test_rivals_are_chosen_by_name() -> None:
    assert chosen_rivals("PL/pgSQL batches,row locks") == (BATCHES, ROW_LOCKS)
    assert chosen_rivals("") == ()
    with pytest.raises(ValueError, match="no such rival: nobody; known are row locks, "):
        chosen_rivals("row locks,nobody")


def test_workloads_inside_the_process_are_not_compared_with_another_commit() -> None:
    names = not_compared(chosen(""))
    assert set(names) >= {"router", "router-open", "stand-in", "far"}
    assert not set(names) & {"wire", "wire-hot", "wire-open", "life", "rest", "rest-few", "rest-open"}
    assert not_compared(chosen("wire,rest")) == []


def test_a_comparison_without_a_workload_is_refused() -> None:
    with pytest.raises(ValueError, match=r"router, far: inside the process, .*; wire, .* can"):
        not_compared(chosen("router,far"))


def test_a_python_is_chosen_for_a_commit_only(capsys: pytest.CaptureFixture[str]) -> None:
    options = arguments(["--against", "HEAD", "--against-python", "python3.14"])
    assert (options.against, options.against_python) == ("HEAD", "python3.14")
    with pytest.raises(SystemExit):
        arguments(["--against-python", "python3.14"])
    assert "--against-python needs --against" in capsys.readouterr().err
