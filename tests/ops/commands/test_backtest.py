"""``stanchion backtest``: it waits, prints the figures, and names limits that are exceeded."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any, cast

import pytest
from rich.console import Console

from ops.commands import backtest as command
from ops.commands.backtest import (
    BacktestError,
    Limits,
    broken_limits,
    parse_share,
    read_change,
    report,
    run,
)
from stanchion import Client
from stanchion.records import Backtest

CHANGE: Any = {"controls": {"remove": ["per_txn_cap"]}}
SCOPE: Any = {"type": "programme", "id": "p"}
FLIPS = {
    "approved_to_declined": {"count": 5, "amount": "50.00"},
    "declined_to_approved": {"count": 1, "amount": "7.00"},
}
DONE: dict[str, Any] = {
    "id": "b",
    "state": "done",
    "failure": None,
    "assume_presented": True,
    "currency": "EUR",
    "progress": {"cards_done": 2, "cards": 2},
    "baseline": {"decisions": 1_200, "mismatches": 0, "examples": [], "cards_left_out": 3},
    "before": {
        "decisions": 1_200,
        "approved": 1_000,
        "declined": 200,
        "approved_amount": "9.00",
        "not_sent": 0,
    },
    "after": {"decisions": 1_200, "approved": 996, "declined": 204, "approved_amount": "8.00", "not_sent": 0},
    "flips": FLIPS,
    "by_rule": [FLIPS | {"rule": "per_day_cap"}],
    "by_mcc": [],
}


class Backtests:
    """The client's back-tests: running at first, then in ``last``'s state."""

    def __init__(self, last: dict[str, Any]) -> None:
        self.states = [DONE | {"state": "running"}, DONE | last]
        self.cancelled: list[str] = []

    def create(self, *window: str, **fields: Any) -> dict[str, Any]:
        assert window == ("a", "b")
        assert fields == {"scope": SCOPE, "change": CHANGE, "assume_presented": True}
        return DONE | {"state": "queued", "progress": {"cards_done": 0, "cards": None}}

    def get(self, _id: str) -> dict[str, Any]:
        if not self.states:
            raise KeyboardInterrupt
        return self.states.pop(0)

    def cancel(self, id_: str) -> None:
        self.cancelled.append(id_)


class FakeClient:
    """A client with back-tests only."""

    def __init__(self, **last: Any) -> None:
        self.backtests = Backtests(last)


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "POLL_SECONDS", 0.0)


def ran(client: FakeClient) -> tuple[Backtest, str]:
    """The result, and the printed report."""
    console = Console(file=io.StringIO(), width=100)
    done = run(cast("Client", client), console, CHANGE, SCOPE, ("a", "b"))
    report(console, done)
    return done, cast(io.StringIO, console.file).getvalue()


def test_report_has_the_figures() -> None:
    done, printed = ran(FakeClient())
    assert done["state"] == "done"
    assert "1,200 decisions, all reproduced" in printed
    assert "3 cards were left out" in printed
    assert "presented in full" in printed
    for part in ("per_day_cap", "1,000", "996", "50.00"):
        assert part in printed
    assert "MCC" not in printed


def test_names_of_rules_are_not_cut_on_a_narrow_terminal() -> None:
    stored = "rule:019aa6f0-4f2c-7cc1-9a31-5b0f6f3f2a7e@2"
    by_rule = [FLIPS | {"rule": name} for name in (stored, "rule:add_rules/10@1")]
    console = Console(file=io.StringIO(), width=80)
    report(console, cast(Backtest, DONE | {"by_rule": by_rule}))
    printed = cast(io.StringIO, console.file).getvalue()
    assert "│ rule:add_rules/10@1" in printed
    firsts = (line.split("│")[1].strip() for line in printed.splitlines() if line.startswith("│"))
    assert stored in "".join(firsts)
    assert max(map(len, printed.splitlines())) <= 80
    assert all(line.endswith("│") for line in printed.splitlines() if line.startswith("│"))


@pytest.mark.parametrize(
    ("last", "message"),
    [
        ({"state": "failed", "failure": "baseline_mismatch"}, "failed: baseline_mismatch"),
        ({"state": "cancelled"}, "been cancelled"),
    ],
)
def test_backtest_without_a_result_is_an_error(last: dict[str, Any], message: str) -> None:
    with pytest.raises(BacktestError, match=message):
        ran(FakeClient(**last))


def test_interruption_cancels_the_backtest() -> None:
    client = FakeClient(state="running")
    with pytest.raises(KeyboardInterrupt):
        ran(client)
    assert client.backtests.cancelled == ["b"]


@pytest.mark.parametrize(
    ("limits", "names"),
    [
        (Limits(), []),
        (Limits(0.005, 0.005), []),
        (Limits(0.0049, 0.0049), ["--max-approved-lost", "--max-newly-approved"]),
        (Limits(newly_approved=0.0), ["--max-newly-approved"]),
    ],
)
def test_exceeded_limits_are_named(limits: Limits, names: list[str]) -> None:
    assert [line.split()[0] for line in broken_limits(cast(Backtest, DONE), limits)] == names


def test_history_without_decisions_exceeds_no_limit() -> None:
    empty = DONE["before"] | {"approved": 0, "declined": 0}
    assert broken_limits(cast(Backtest, DONE | {"before": empty}), Limits(0.0, 0.0)) == []


def test_shares_are_percentages() -> None:
    assert (parse_share(None), parse_share("0.5%"), parse_share("100%")) == (None, 0.005, 1.0)
    for text in ("0.5", "x%", "101%", "-1%", "%", "nan%"):
        with pytest.raises(BacktestError):
            parse_share(text)


def test_change_is_a_json_object(tmp_path: Path) -> None:
    path = tmp_path / "change.json"
    body = {
        "name": "No bets",
        "when": [{"attribute": "mcc", "op": "eq", "value": "7995"}],
        "reason": "no_bets",
    }
    for change in (CHANGE, {"add_rules": ["019aa6f0-4f2c-7cc1-9a31-5b0f6f3f2a7e@2", body]}):
        path.write_text(json.dumps(change))
        assert read_change(path) == change
    for text in ("[]", "{"):
        path.write_text(text)
        with pytest.raises(BacktestError):
            read_change(path)
    with pytest.raises(BacktestError, match="No such file"):
        read_change(tmp_path / "none.json")
