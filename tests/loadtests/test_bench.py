"""The servers of a run."""

from __future__ import annotations

from loadtests.bench import plan_of
from loadtests.choices import arguments, chosen
from loadtests.harness.systems import BATCHES, OURS, RIVALS
from loadtests.workloads import FAR_MS


def test_a_plan_has_only_what_its_workloads_need() -> None:
    options = arguments([])
    wanted = chosen("stand-in,wire")
    plan = plan_of(options, wanted, RIVALS)
    assert set(plan.rivals) == {name for each in wanted for name in each.loads} - {OURS}
    assert (plan.stand_in_cards > 0, plan.capped_cards, plan.far_ms) == (True, 0, 0.0)
    assert plan_of(options, chosen("router-caps"), ()).capped_sales > 0
    far = plan_of(options, chosen("far"), (BATCHES,))
    assert (far.rivals, far.far_ms) == ((BATCHES,), FAR_MS)
