"""What shoppers must see during and after a fault."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ops.chaos.errors import NotInjectedError
from ops.chaos.faults.fault import ANSWER_SECONDS_MAX, IN_FLIGHT_SECONDS, Outcome
from ops.chaos.rig import Rig
from ops.histories.operations import Operation


def expect_unnoticed(rig: Rig, began: float, outcome: Outcome) -> None:
    """Decisions did not notice."""
    asked = [each for each in rig.crowd.history.since(began) if each.ended is not None]
    if not asked:
        raise NotInjectedError("nobody asked anything meanwhile")
    errors = [each for each in asked if each.outcome != "ok"]
    outcome.expect(not errors, f"{len(errors)} of {len(asked)} decisions noticed{_heard(errors)}")


def _heard(errors: Sequence[Operation]) -> str:
    """What came of them: `` (91 × 3, no answer × 1, after up to 2.0 s)``."""
    if not errors:
        return ""
    answers = Counter(each.response_code or "no answer" for each in errors)
    said = ", ".join(f"{answer} × {times}" for answer, times in answers.most_common())
    longest = max((each.ended or each.began) - each.began for each in errors)
    return f" ({said}, after up to {longest:.1f} s)"


async def after_outage(rig: Rig, began: float, returned: float) -> Outcome:
    """Nothing is approved while it lasts, everyone is answered in time, service returns by itself."""
    normal_seconds = await rig.back()
    outcome = Outcome(normal_seconds)
    asked = [each for each in rig.crowd.history.since(began - ANSWER_SECONDS_MAX) if each.ended is not None]
    meanwhile = [each for each in asked if began + IN_FLIGHT_SECONDS < (each.ended or 0.0) < returned]
    approvals = sum(each.outcome == "ok" and each.began > began for each in meanwhile)
    outcome.expect(not approvals, f"{approvals} answers of an owner without its journal")
    waited = max(((each.ended or 0.0) - each.began for each in asked if each.response_code), default=0.0)
    outcome.expect(waited <= ANSWER_SECONDS_MAX, f"somebody waited for {waited:.2f} s")
    if not any(each.began < returned and (each.ended or 0.0) > began for each in asked):
        raise NotInjectedError("nobody asked anything meanwhile")
    return outcome


def expect_answers_in_time(rig: Rig, began: float, outcome: Outcome) -> Outcome:
    """Whoever asked since was answered by the deadline and a second."""
    asked = [each for each in rig.crowd.history.since(began) if each.ended is not None and each.response_code]
    if not asked:
        raise NotInjectedError("nobody asked anything meanwhile")
    waited = max((each.ended or 0.0) - each.began for each in asked)
    outcome.expect(waited <= ANSWER_SECONDS_MAX, f"somebody waited for {waited:.2f} s")
    return outcome
