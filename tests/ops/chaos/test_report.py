"""The verdict of a chaos run: a promise holds only if it was tried and never broken."""

from __future__ import annotations

import pytest

from ops.audit import Finding
from ops.chaos.__main__ import chosen, only_checked
from ops.chaos.checks import BOOKS, CHECKS, promise_of
from ops.chaos.faults.catalogue import ALL_FAULTS
from ops.chaos.faults.fault import Fault, Outcome
from ops.chaos.report import BEGIN, END, PROMISES, ChaosReport
from ops.chaos.suites import ROOT, SUITES

FAULT = Fault("G3", "a process dies", "ms", 500.0)
GOODPUT = Fault("G14", "overload", "of the peak", 0.8, least=True)
HELD = Finding("the books balance", 3, 0, ())
BROKEN = Finding("the books balance", 3, 1, ("x",))
EMPTY = Finding("each stand-in approval was within the budget in force", 0, 0, ())


def report(*outcomes: Outcome, finding: Finding = HELD, fault: Fault = FAULT) -> ChaosReport:
    made = ChaosReport(1, [fault.promise])
    made.wants(fault)
    for outcome in outcomes:
        made.injected(fault, outcome)
    made.found(finding)
    return made


def row_of(made: ChaosReport, name: str) -> tuple[int, float | None, str]:
    row = next(each for each in made.rows() if each.name == name)
    return row.rounds, row.worst, row.verdict


def test_rounds_within_the_limit_pass() -> None:
    made = report(Outcome(100.0), Outcome(500.0))
    assert made.passed
    assert row_of(made, "a process dies") == (2, 500.0, "held")
    assert row_of(made, "the books balance") == (3, 0, "held")


def test_rounds_that_run_at_once_are_counted() -> None:
    made = report(Outcome(100.0, rounds=4), Outcome(500.0))
    assert row_of(made, "a process dies") == (5, 500.0, "held")


def test_a_run_without_rounds_shows_nothing() -> None:
    assert not ChaosReport(1).passed
    made = report()
    assert not made.passed
    assert row_of(made, "a process dies") == (0, None, "not shown: never tried")


def test_a_promise_without_a_row_is_not_shown() -> None:
    made = ChaosReport(1, ["G3", "G7"])
    made.injected(FAULT, Outcome(1.0))
    assert not made.passed
    assert [(row.promise, row.verdict) for row in made.rows()] == [
        ("G3", "held"),
        ("G7", "not shown: never tried"),
    ]


@pytest.mark.parametrize("worse", [Outcome(501.0), Outcome(1.0, ["a card was lost"])])
def test_one_bad_round_breaks_the_promise(worse: Outcome) -> None:
    assert not report(Outcome(100.0), worse, Outcome(100.0)).passed


def test_the_worst_goodput_is_the_lowest() -> None:
    enough = report(Outcome(0.95), Outcome(0.81), Outcome(2.0), fault=GOODPUT)
    assert enough.passed
    assert row_of(enough, "overload") == (3, 0.81, "held")
    less = report(Outcome(0.95), Outcome(0.79), Outcome(2.0), fault=GOODPUT)
    assert not less.passed
    assert row_of(less, "overload") == (3, 0.79, "BROKEN 1×: 0.79 is less than 0.8")


def test_broken_books_fail_the_run() -> None:
    assert not report(Outcome(1.0), finding=BROKEN).passed


def test_a_check_without_subjects_shows_nothing() -> None:
    made = ChaosReport(1, ["G3", "G6"])
    made.injected(FAULT, Outcome(1.0))
    made.found(EMPTY)
    assert not made.passed
    assert row_of(made, EMPTY.promise) == (0, None, "not shown: it had no subjects")


def test_checks_of_two_installations_add_up() -> None:
    made = report(Outcome(1.0))
    made.found(HELD)
    assert row_of(made, HELD.promise) == (6, 0, "held")
    made.found(BROKEN)
    assert row_of(made, HELD.promise) == (9, 1, "BROKEN 1×: x")


def test_a_check_without_subjects_is_left_out_if_its_promise_is_not_expected() -> None:
    made = report(Outcome(1.0), finding=EMPTY)
    assert made.passed
    assert [row.name for row in made.rows()] == ["a process dies"]


def test_a_broken_check_of_an_unexpected_promise_fails_the_run() -> None:
    assert not report(Outcome(1.0), finding=Finding(EMPTY.promise, 2, 1, ("x",))).passed


def test_a_fault_that_was_never_injected_fails_the_run() -> None:
    made = report()
    made.not_injected(FAULT, "no process to signal was found")
    assert not made.passed
    assert row_of(made, "a process dies") == (0, None, "not shown: no process to signal was found")


def test_a_round_that_was_not_injected_is_not_counted() -> None:
    made = report(Outcome(1.0))
    made.not_injected(FAULT, "no process to signal was found")
    assert made.passed
    assert row_of(made, "a process dies") == (1, 1.0, "held; 1 more not injected")


def test_an_installation_that_does_not_recover_fails_the_run() -> None:
    made = report(Outcome(1.0))
    made.failed(FAULT, "timed out waiting until the installation is complete")
    assert not made.passed


def test_a_run_that_ended_early_fails() -> None:
    made = report(Outcome(1.0))
    made.ended_early("the installation did not recover")
    assert not made.passed


def test_the_table_names_the_violation(capsys: pytest.CaptureFixture[str]) -> None:
    report(Outcome(900.0), finding=BROKEN).show()
    shown = capsys.readouterr().out
    assert "a process dies" in shown
    assert "900 is more than 500" in shown
    assert "BROKEN 1×: x" in shown
    assert "NOT PASSED" in shown


def test_markdown_is_a_table_between_its_markers() -> None:
    lines = report(Outcome(100.0), finding=BROKEN).markdown().splitlines()
    assert (lines[0], lines[-1]) == (BEGIN, END)
    assert "| G3 | a process dies | 1 | 100 ms | held |" in lines
    assert "| G3 | the books balance | 3 | 1 broken | BROKEN 1×: x |" in lines


def test_every_promise_is_tried() -> None:
    tried = (
        {fault.promise for fault in ALL_FAULTS} | {suite.promise for suite in SUITES} | set(CHECKS.values())
    )
    assert tried == set(PROMISES)


def test_every_fault_can_be_chosen_by_its_name() -> None:
    names = [fault.name for fault in ALL_FAULTS]
    assert len(set(names)) == len(names)
    assert all(fault.inject is not None for fault in ALL_FAULTS)
    for fault in ALL_FAULTS:
        assert fault in chosen(fault.name)[0]


def test_only_selects_whole_promises() -> None:
    faults, suites, promises = chosen("G1")
    assert {fault.promise for fault in faults} == {"G1"}
    assert not suites
    assert promises == ["G1"]
    assert chosen("")[2] == list(PROMISES)
    assert chosen("shard host")[2] == []
    assert only_checked(["G18"])
    assert not only_checked(["G12"])


def test_every_listed_check_exists() -> None:
    """A renamed check must not silently count for the promise of the books."""
    others = (
        "ops/histories/check.py",
        "ops/chaos/traffic/webhook_receiver.py",
        "ops/chaos/traffic/idempotent_callers.py",
    )
    checkers = [*(ROOT / "ops/audit").glob("*.py"), *(ROOT / path for path in others)]
    source = "".join(path.read_text() for path in checkers)
    assert [check for check in CHECKS if f'"{check}"' not in source] == []
    assert promise_of("no canary in the logs") == "G18"
    assert promise_of("the posted balance is the sum of the entries") == BOOKS
