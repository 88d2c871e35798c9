"""The checks of idempotency keys: each violation is found by its own check only."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from ops.chaos.checks import CHECKS
from ops.chaos.traffic.idempotent_callers import REUSED, KeyedAnswer, KeyedRequest, Kind, judge

FIRST = KeyedAnswer(201, b'{"id": "1"}', replayed=False)
AGAIN = KeyedAnswer(201, b'{"id": "1"}', replayed=True)
CONFLICT = KeyedAnswer(409, json.dumps({"type": f"/problems/{REUSED}"}).encode(), replayed=False)
ELSEWHERE = KeyedAnswer(201, b'{"id": "2"}', replayed=False)
Effects = dict[tuple[Kind, str], int]


def keyed(number: int = 1) -> KeyedRequest:
    name = f"chaos-{number}"
    made = KeyedRequest("cardholder", name, name, f"{name}-other", {"external_ref": name}, {})
    made.answers, made.conflict, made.other_client = [FIRST, AGAIN, AGAIN], CONFLICT, ELSEWHERE
    return made


def once(each: KeyedRequest) -> Effects:
    return {(each.kind, each.value): 1}


def broken(each: KeyedRequest, effects: Effects) -> set[str]:
    return {finding.promise for finding in judge([each], effects) if finding.broken}


def test_a_correct_history_breaks_no_check() -> None:
    each = keyed()
    findings = judge([each], once(each))
    assert [(finding.subjects, finding.broken) for finding in findings] == [(1, 0)] * 5
    assert all(CHECKS[finding.promise] == "G5" for finding in findings)


def test_a_key_without_answers_may_have_an_effect_or_none() -> None:
    each = keyed()
    each.answers, each.conflict, each.other_client = [], None, None
    assert broken(each, {}) == broken(each, once(each)) == set()
    assert broken(each, {(each.kind, each.value): 2}) == {
        "a key has at most one effect, and exactly one if a caller got its success"
    }


def _twice(each: KeyedRequest, effects: Effects) -> None:
    effects[each.kind, each.value] = 2


def _never(each: KeyedRequest, effects: Effects) -> None:
    effects.clear()


def _other_bytes(each: KeyedRequest, _effects: Effects) -> None:
    each.answers.append(KeyedAnswer(201, b'{"id":"1"}', replayed=True))


def _other_status(each: KeyedRequest, _effects: Effects) -> None:
    each.answers.append(KeyedAnswer(200, FIRST.body, replayed=True))


def _executed_again(each: KeyedRequest, _effects: Effects) -> None:
    each.answers.append(FIRST)


def _taken(each: KeyedRequest, _effects: Effects) -> None:
    each.conflict = AGAIN


def _taken_unheard(each: KeyedRequest, effects: Effects) -> None:
    effects[each.kind, each.altered_value] = 1


def _shared(each: KeyedRequest, _effects: Effects) -> None:
    each.other_client = AGAIN


@pytest.mark.parametrize(
    ("violation", "check"),
    [
        (_twice, "a key has at most one effect, and exactly one if a caller got its success"),
        (_never, "a key has at most one effect, and exactly one if a caller got its success"),
        (_other_bytes, "all answers to a key have the same bytes"),
        (_other_status, "all answers to a key have the same bytes"),
        (_executed_again, "at most one answer to a key is not marked as a replay"),
        (_taken, "another payload under a key gets a conflict and has no effect"),
        (_taken_unheard, "another payload under a key gets a conflict and has no effect"),
        (_shared, "the same key of another client is independent"),
    ],
)
def test_each_violation_is_found_by_its_check(
    violation: Callable[[KeyedRequest, Effects], None], check: str
) -> None:
    each = keyed()
    effects = once(each)
    violation(each, effects)
    assert broken(each, effects) == {check}
