"""The order of the commands of cards that share an account."""

from __future__ import annotations

from dataclasses import dataclass

from engine.backtests.entry import Entry
from engine.backtests.order import CommandQueues
from tests.support.engine.build import NOW_MS, an_id

FIRST, SECOND = an_id(1), an_id(2)


@dataclass
class AccountOf:
    """The owner of an account whose version rises with each of these kinds."""

    account_version: int = 0


def presentment(card_id: str, seq: int, at_ms: int = NOW_MS) -> Entry:
    return Entry(card_id, seq, at_ms, "present", "{}", None, "{}")


def decision(card_id: str, seq: int, saw: int, at_ms: int = NOW_MS) -> Entry:
    """An approval that saw the version ``saw`` of its account."""
    inputs = [2, at_ms, *range(17), saw]
    text = "[" + ",".join(map(str, inputs)) + "]"
    return Entry(card_id, seq, at_ms, "authorize", "{}", text, '{"decision":"approved"}')


def ordered(*histories: list[Entry]) -> list[tuple[str, int]]:
    account = AccountOf()
    queues = CommandQueues([history[0].card_id for history in histories])
    for history in histories:
        queues.add(history[0].card_id, history, complete=True)
    order = []
    for entry in queues.ready(account):
        order.append((entry.card_id, entry.seq))
        account.account_version += 1
    return order


def test_commands_are_in_the_order_of_their_instants() -> None:
    first = [presentment(FIRST, 1), presentment(FIRST, 2, NOW_MS + 2)]
    second = [presentment(SECOND, 1, NOW_MS + 1)]
    assert ordered(first, second) == [(FIRST, 1), (SECOND, 1), (FIRST, 2)]


def test_decision_follows_the_commands_that_made_the_version_it_saw() -> None:
    first = [decision(FIRST, 1, saw=1)]
    second = [presentment(SECOND, 1)]
    assert ordered(first, second) == [(SECOND, 1), (FIRST, 1)]


def test_command_whose_card_decided_on_an_earlier_version_comes_first() -> None:
    """Both presentments are in one millisecond; the decisions after them show which was first."""
    first = [presentment(FIRST, 1), decision(FIRST, 2, saw=3)]
    second = [presentment(SECOND, 1), decision(SECOND, 2, saw=1)]
    assert ordered(first, second) == [(SECOND, 1), (SECOND, 2), (FIRST, 1), (FIRST, 2)]
