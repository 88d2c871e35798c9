"""Reply batches and mailboxes of deferred replies."""

from __future__ import annotations

import asyncio

from actors.shards.reply_slots import DEFERRED, Mailbox, Mailboxes, ReplyBatch, ReplySlot
from engine.limits import MAILBOX_IDLE_SECONDS, MAILBOXES_MAX
from engine.replies import Done
from tests.support.actors.shards.virtual_time import run

ONE, TWO = Done(201, {}), Done(202, {})


async def test_batch_is_complete_when_every_slot_has_its_reply() -> None:
    batch = ReplyBatch(2, None)
    slots = [ReplySlot(batch, ticket) for ticket in (1, 2)]
    complete = asyncio.create_task(batch.wait())
    slots[1].set(TWO)
    await asyncio.sleep(0)
    assert not complete.done()
    slots[0].set(ONE)
    await complete
    assert [slot.result() for slot in slots] == [ONE, TWO]


async def test_deferred_reply_does_not_delay_its_batch() -> None:
    box = Mailbox()
    batch = ReplyBatch(1, box)
    slot = ReplySlot(batch, 9)
    slot.defer()
    slot.defer()
    await batch.wait()
    assert slot.result() == DEFERRED
    slot.set(ONE)
    assert await box.collect(1.0) == [(9, ONE)]


async def test_slot_with_a_reply_is_not_deferred() -> None:
    box = Mailbox()
    batch = ReplyBatch(2, box)
    first, second = ReplySlot(batch, 8), ReplySlot(batch, 9)
    first.set(ONE)
    first.defer()
    second.set(TWO)
    await batch.wait()
    assert [first.result(), second.result()] == [ONE, TWO]
    assert await box.collect(0.0) == []


async def test_reply_to_a_caller_without_a_mailbox_is_not_deferred() -> None:
    batch = ReplyBatch(1, None)
    slot = ReplySlot(batch, 9)
    slot.defer()
    slot.set(ONE)
    await batch.wait()
    assert slot.result() == ONE


async def test_collecting_empties_the_mailbox() -> None:
    box = Mailbox()
    box.put(1, ONE)
    box.put(2, TWO)
    assert await box.collect(1.0) == [(1, ONE), (2, TWO)]
    assert await box.collect(0.0) == []


def test_only_idle_mailboxes_are_dropped() -> None:
    async def main() -> None:
        boxes = Mailboxes()
        gone, living = boxes.of("gone"), boxes.of("living")
        living.put(1, ONE)
        for number in range(MAILBOXES_MAX):
            boxes.of(f"other {number}")
        assert boxes.of("gone") is gone, "even the oldest mailbox stays until it is idle"
        for number in range(3):
            await asyncio.sleep(MAILBOX_IDLE_SECONDS / 2)
            assert boxes.of("living") is living
            boxes.of(f"later {number}")
        for number in range(MAILBOXES_MAX + 1):
            boxes.of(f"other {number}")
        assert boxes.of("gone") is not gone
        assert await living.collect(1.0) == [(1, ONE)]

    run(main())
