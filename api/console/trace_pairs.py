"""Two traces of one message side by side: a row for each rule, aligned by the rules' names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any, NamedTuple

Step = Mapping[str, Any]


class StepPair(NamedTuple):
    """The steps of one rule; ``None`` on the side that did not evaluate it."""

    rule: str
    before: Step | None
    after: Step | None

    @property
    def differs(self) -> bool:
        """Whether the sides differ."""
        return self.before != self.after


def side_by_side(before: Sequence[Step], after: Sequence[Step]) -> list[StepPair]:
    """The steps of both traces in their order. Versions of one rule stand beside each other."""
    first, second = ([_rule(step) for step in trace] for trace in (before, after))
    pairs = []
    for tag, i, j, k, m in SequenceMatcher(None, first, second, autojunk=False).get_opcodes():
        if tag == "equal":
            pairs += [_pair(*steps) for steps in zip(before[i:j], after[k:m], strict=True)]
        else:
            pairs += [_pair(step, None) for step in before[i:j]]
            pairs += [_pair(None, step) for step in after[k:m]]
    return pairs


def _pair(before: Step | None, after: Step | None) -> StepPair:
    step = after or before
    assert step is not None
    return StepPair(step["rule"], before, after)


def _rule(step: Step) -> str:
    """The step's name without the version of an authorization rule."""
    return str(step["rule"]).partition("@")[0]
