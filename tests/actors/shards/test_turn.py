"""Turns and mailboxes: who waits for which reply."""

from __future__ import annotations

import asyncio

from actors.shards.turn import DEFERRED, Mailbox, Mailboxes, Seat, Turn
from engine.limits import MAILBOXES_MAX
from engine.replies import Done, Reply

ONE, TWO = Done(201, {}), Done(202, {})


def reply() -> asyncio.Future[Reply]:
    return asyncio.get_running_loop().create_future()


async def test_a_turn_is_over_when_every_seat_has_its_reply() -> None:
    turn, replies = Turn(2, None), [reply(), reply()]
    seats = [Seat(turn, ticket) for ticket in (1, 2)]
    for seat, each in zip(seats, replies, strict=True):
        seat.wait_for(each)
    over = asyncio.create_task(turn.over())
    replies[1].set_result(TWO)
    await asyncio.sleep(0)
    assert not over.done()
    replies[0].set_result(ONE)
    await over
    assert [seat.outcome() for seat in seats] == [ONE, TWO]


async def test_a_deferred_seat_does_not_hold_the_turn_up() -> None:
    box = Mailbox()
    turn, late = Turn(1, box), reply()
    seat = Seat(turn, 9)
    seat.wait_for(late)
    seat.defer()
    seat.defer()
    await turn.over()
    assert seat.outcome() == DEFERRED
    late.set_result(ONE)
    assert await box.collect(1.0) == [(9, ONE)]


async def test_a_seat_can_be_deferred_before_it_waits() -> None:
    box = Mailbox()
    turn, late = Turn(1, box), reply()
    seat = Seat(turn, 9)
    seat.defer()
    seat.wait_for(late)
    late.set_result(ONE)
    await turn.over()
    assert await box.collect(1.0) == [(9, ONE)]


async def test_nobody_is_deferred_who_does_not_collect() -> None:
    turn, late = Turn(1, None), reply()
    seat = Seat(turn, 9)
    seat.wait_for(late)
    seat.defer()
    late.set_result(ONE)
    await turn.over()
    assert seat.outcome() == ONE


async def test_a_mailbox_is_emptied_at_once() -> None:
    box = Mailbox()
    box.put(1, ONE)
    box.put(2, TWO)
    assert await box.collect(1.0) == [(1, ONE), (2, TWO)]
    assert await box.collect(0.0) == []


async def test_mailboxes_of_too_many_callers_are_forgotten() -> None:
    boxes = Mailboxes()
    first, second = boxes.of("first"), boxes.of("second")
    for number in range(MAILBOXES_MAX - 1):
        boxes.of(str(number))
        assert boxes.of("second") is second
    assert boxes.of("first") is not first
