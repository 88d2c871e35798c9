"""The greedy tenant's workers and the summary of its answers."""

from __future__ import annotations

from loadtests.generators.greed import SHARES, shared_out, summary


def test_every_kind_of_request_has_a_worker() -> None:
    assert sum(SHARES.values()) == 100
    assert shared_out(160) == {"simulation": 64, "list": 48, "programme": 24, "picture": 16, "export": 8}
    assert shared_out(1) == dict.fromkeys(SHARES, 1)


def test_summary_separates_accepted_answers() -> None:
    answers = {"list 200": 1_500, "list 429": 7, "export 202": 2, "export cut": 1}
    assert summary(answers, ("list", "export")) == "list 1,500 accepted, 7 not; export 2 accepted, 1 not"
