"""The engine's CPU that authorization rules add to a decision: ``python -m loadtests.rules``.

Each step is one authorization, decided and encoded as its owner stores it, without effects and servers. Cards
without rules, with 20 rules of four conditions, and with velocities take turns in slices, so that a change of
the machine's speed affects all of them.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec

from engine.authorization.authorizing import decision_inputs
from engine.authorization.executed import CommandContext
from engine.decision.decide import authorize
from engine.rules.evaluate import NO_RULES, LivePast, RuleSet, counted_of, rule_set
from engine.rules.model import Condition, Rule, Velocity
from engine.rules.velocity import History
from loadtests.figures import percentile
from loadtests.generators.pure import (
    NOW_MS,
    active_card,
    funded_account,
    new_id,
    new_programme,
    new_sale,
)
from loadtests.options import positive
from loadtests.reports.publish import NoMarksError, check_marks, insert
from loadtests.reports.text import measured_on, table

RULES: Final = 20
SLICES: Final = 20
MARK: Final = "rules"
TARGET_MICROSECONDS: Final = 15
"""The most that ``RULES`` rules of four conditions may add to a decision."""
HOLDING: Final = (
    Condition("amount", "gt", 100),
    Condition("channel", "in", ("pos", "ecommerce")),
    Condition("merchant_country", "not_in", ("KP", "IR")),
)
"""Conditions that hold, so that a rule's fourth condition is reached."""

_encode = msgspec.json.Encoder().encode


class Variant:
    """A card with ``rules``, and the CPU seconds of its decisions."""

    def __init__(self, name: str, rules: RuleSet = NO_RULES, past_purchases: int = 0) -> None:
        self.name = name
        self.seconds: list[float] = []
        card_id, config = new_id(), new_programme()
        account = funded_account(card_id, config)
        self._command = new_sale(card_id)
        history = History()
        past = [counted_of(new_sale(card_id), NOW_MS - number) for number in range(past_purchases)]
        history.load(rules.velocities, config.timezone, past)
        self._context = CommandContext(
            active_card(card_id, account), account, config, rules=rules, past=LivePast(history, history)
        )

    def step(self) -> None:
        """Decide once, and encode the inputs and the decision."""
        inputs = decision_inputs(self._context, NOW_MS, (), self._command)
        decision = authorize(self._command, inputs, self._context.rules)
        assert decision.reason is None, "no rule matches"
        _encode(inputs)
        _encode(decision)

    def run(self, seconds: float) -> None:
        """Decide for so many seconds of CPU."""
        end = time.process_time() + seconds
        while time.process_time() < end:
            began = time.process_time()
            for _ in range(50):
                self.step()
            self.seconds.append((time.process_time() - began) / 50)

    def microseconds(self) -> float:
        """The median of the CPU of a decision."""
        return 1e6 * percentile(self.seconds, 0.5)


def variants() -> list[Variant]:
    """Cards without rules first."""
    plain = [rule(number, (*HOLDING, Condition("mcc", "eq", "7995"))) for number in range(RULES)]
    counting = [
        rule(number, (*HOLDING, Condition("velocity", "gt", 10_000, Velocity("count", f"PT{number + 1}M"))))
        for number in range(RULES)
    ]
    return [
        Variant("no rules"),
        Variant(f"{RULES} rules of four conditions", rule_set(plain)),
        Variant(f"{RULES} rules with a velocity, 1,000 purchases", rule_set(counting), 1_000),
    ]


def measure(measured: Iterable[Variant], seconds: float) -> list[tuple[str, float, float]]:
    """Name, microseconds of a decision, and microseconds beyond the first variant."""
    each_one = list(measured)
    for _ in range(SLICES):
        for each in each_one:
            each.run(seconds / SLICES)
    first = each_one[0].microseconds()
    return [(each.name, each.microseconds(), each.microseconds() - first) for each in each_one]


def rule(number: int, when: tuple[Condition, ...]) -> Rule:
    """An active rule."""
    return Rule(
        id=new_id(),
        scope="programme",
        scope_id=new_id(),
        name=str(number),
        when=when,
        reason="measured",
        state="active",
        created_ms=number,
    )


def report(found: Iterable[tuple[str, float, float]]) -> str:
    """The table, and the verdict on the target, which the second variant has."""
    every = list(found)
    rows = [(name, f"{cost:.1f}", f"{added:+.1f}") for name, cost, added in every]
    _, _, plain = every[1]
    reached = "reached" if plain <= TARGET_MICROSECONDS else "missed"
    target = f"- target: {RULES} rules of four conditions add at most {TARGET_MICROSECONDS} µs, {reached}"
    head = ("card with", "CPU of a decision, µs", "added, µs")
    return f"{measured_on()}\n\n{table(head, rows)}\n\n{target}"


def main(arguments: list[str]) -> int:
    """Run it; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m loadtests.rules", description=__doc__)
    parser.add_argument("--seconds", type=positive, default=3.0, help="of each variant [%(default)s]")
    parser.add_argument("--into", type=Path, metavar="FILE", help="put the report between its marks there")
    options = parser.parse_args(arguments)
    try:
        if options.into is not None:
            check_marks(options.into, [MARK])
    except NoMarksError as wrong:
        print(f"loadtests.rules: {wrong}", file=sys.stderr)
        return 1
    text = report(measure(variants(), options.seconds))
    print(text)
    if options.into is not None:
        insert(options.into, MARK, text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
