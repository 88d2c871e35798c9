"""The verdict: only what was tried, and held, is held."""

from __future__ import annotations

import pytest

from ops.audit import Finding
from ops.chaos.faults import FAULTS, Fault, Outcome
from ops.chaos.report import Report

FAULT = Fault("G3", "somebody dies", "ms", 500.0)
HELD = Finding("the books balance", 3, 0, ())
BROKEN = Finding("the books balance", 3, 1, ("x",))


def report(*outcomes: Outcome, finding: Finding = HELD) -> Report:
    made = Report(1)
    for outcome in outcomes:
        made.injected(FAULT, outcome)
    made.found(finding)
    return made


def test_what_held_has_passed() -> None:
    assert report(Outcome(100.0), Outcome(500.0)).passed


def test_nothing_tried_is_nothing_shown() -> None:
    assert not report().passed


@pytest.mark.parametrize("worse", [Outcome(501.0), Outcome(1.0, ["somebody was lost"])])
def test_one_bad_round_is_enough(worse: Outcome) -> None:
    assert not report(Outcome(100.0), worse, Outcome(100.0)).passed


def test_broken_books_are_no_pass() -> None:
    assert not report(Outcome(1.0), finding=BROKEN).passed


def test_a_fault_that_was_not_injected_is_no_pass() -> None:
    made = report(Outcome(1.0))
    made.not_injected(FAULT, "there was nobody to signal")
    assert not made.passed


def test_an_installation_that_does_not_recover_is_no_pass() -> None:
    made = report(Outcome(1.0))
    made.failed(FAULT, "never: the installation is whole")
    assert not made.passed


def test_the_table_names_what_broke(capsys: pytest.CaptureFixture[str]) -> None:
    report(Outcome(900.0), finding=BROKEN).show()
    shown = capsys.readouterr().out
    assert "somebody dies" in shown
    assert "900 is more than 500" in shown
    assert "BROKEN: x" in shown


def test_every_fault_can_be_chosen_by_its_name() -> None:
    names = [fault.name for fault in FAULTS]
    assert len(set(names)) == len(names)
    assert all(fault.inject is not None for fault in FAULTS)
