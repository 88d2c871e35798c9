"""Turns and mailboxes: who waits for which reply."""

from __future__ import annotations

import asyncio

from actors.shards.turn import DEFERRED, Mailbox, Mailboxes, Seat, Turn
from engine.limits import MAILBOX_IDLE_SECONDS, MAILBOXES_MAX
from engine.replies import Done
from tests.actors.shards.virtual_time import run

ONE, TWO = Done(201, {}), Done(202, {})


async def test_a_turn_is_over_when_every_seat_has_its_reply() -> None:
    turn = Turn(2, None)
    seats = [Seat(turn, ticket) for ticket in (1, 2)]
    over = asyncio.create_task(turn.over())
    seats[1].answer(TWO)
    await asyncio.sleep(0)
    assert not over.done()
    seats[0].answer(ONE)
    await over
    assert [seat.outcome() for seat in seats] == [ONE, TWO]


async def test_a_deferred_seat_does_not_hold_the_turn_up() -> None:
    box = Mailbox()
    turn = Turn(1, box)
    seat = Seat(turn, 9)
    seat.defer()
    seat.defer()
    await turn.over()
    assert seat.outcome() == DEFERRED
    seat.answer(ONE)
    assert await box.collect(1.0) == [(9, ONE)]


async def test_what_is_answered_is_not_deferred() -> None:
    box = Mailbox()
    turn = Turn(2, box)
    first, second = Seat(turn, 8), Seat(turn, 9)
    first.answer(ONE)
    first.defer()
    second.answer(TWO)
    await turn.over()
    assert [first.outcome(), second.outcome()] == [ONE, TWO]
    assert await box.collect(0.0) == []


async def test_nobody_is_deferred_who_does_not_collect() -> None:
    turn = Turn(1, None)
    seat = Seat(turn, 9)
    seat.defer()
    seat.answer(ONE)
    await turn.over()
    assert seat.outcome() == ONE


async def test_a_mailbox_is_emptied_at_once() -> None:
    box = Mailbox()
    box.put(1, ONE)
    box.put(2, TWO)
    assert await box.collect(1.0) == [(1, ONE), (2, TWO)]
    assert await box.collect(0.0) == []


def test_only_mailboxes_of_callers_that_are_gone_are_forgotten() -> None:
    async def main() -> None:
        boxes = Mailboxes()
        gone, living = boxes.of("gone"), boxes.of("living")
        living.put(1, ONE)
        for number in range(MAILBOXES_MAX):
            boxes.of(f"crowd {number}")
        assert boxes.of("gone") is gone, "not even the oldest, as long as it may live"
        for number in range(3):
            await asyncio.sleep(MAILBOX_IDLE_SECONDS / 2)
            assert boxes.of("living") is living
            boxes.of(f"later {number}")
        for number in range(MAILBOXES_MAX + 1):
            boxes.of(f"crowd {number}")
        assert boxes.of("gone") is not gone
        assert await living.collect(1.0) == [(1, ONE)]

    run(main())
