"""What shoppers must see during and after a fault."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ops.chaos.errors import NotInjectedError
from ops.chaos.faults.fault import ANSWER_SECONDS_MAX, IN_FLIGHT_SECONDS, Outcome
from ops.chaos.rig import Rig
from ops.histories.operations import Operation


def expect_unnoticed(rig: Rig, began: float, outcome: Outcome) -> None:
    """Expect that no decision since ``began`` failed or was refused. The repeat of a message that
    was answered before belongs to an earlier fault: a late reversal is followed by 91 to every repeat."""
    asked = [each for each in rig.crowd.history.since(began) if each.ended is not None]
    if not asked:
        raise NotInjectedError("no operation ran during the fault")
    errors = rig.crowd.history.unanswered_before(began, [each for each in asked if each.outcome != "ok"])
    outcome.expect(not errors, f"{len(errors)} of {len(asked)} decisions failed{_summary(errors)}")


def _summary(errors: Sequence[Operation]) -> str:
    """A summary of ``errors``: `` (91 × 3, no answer × 1, after up to 2.0 s)``."""
    if not errors:
        return ""
    answers = Counter(each.response_code or "no answer" for each in errors)
    said = ", ".join(f"{answer} × {times}" for answer, times in answers.most_common())
    longest = max((each.ended or each.began) - each.began for each in errors)
    return f" ({said}, after up to {longest:.1f} s)"


async def after_outage(rig: Rig, began: float, returned: float) -> Outcome:
    """Expect no approvals during an outage from ``began`` to ``returned``, answers in time, and recovery
    without help. The figure: seconds until service is normal."""
    normal_seconds = await rig.recovered()
    outcome = Outcome(normal_seconds)
    asked = [each for each in rig.crowd.history.since(began - ANSWER_SECONDS_MAX) if each.ended is not None]
    meanwhile = [each for each in asked if began + IN_FLIGHT_SECONDS < (each.ended or 0.0) < returned]
    approvals = sum(each.outcome == "ok" and each.began > began for each in meanwhile)
    outcome.expect(not approvals, f"{approvals} approvals while the journal was unavailable")
    waited = max(((each.ended or 0.0) - each.began for each in asked if each.response_code), default=0.0)
    outcome.expect(waited <= ANSWER_SECONDS_MAX, f"the slowest answer took {waited:.2f} s")
    if not any(each.began < returned and (each.ended or 0.0) > began for each in asked):
        raise NotInjectedError("no operation ran during the fault")
    return outcome


def expect_answers_in_time(rig: Rig, began: float, outcome: Outcome) -> Outcome:
    """Expect that every operation since ``began`` was answered within the deadline and one second."""
    asked = [each for each in rig.crowd.history.since(began) if each.ended is not None and each.response_code]
    if not asked:
        raise NotInjectedError("no operation ran during the fault")
    waited = max((each.ended or 0.0) - each.began for each in asked)
    outcome.expect(waited <= ANSWER_SECONDS_MAX, f"the slowest answer took {waited:.2f} s")
    return outcome
