"""Open holds ordered by expiry: a binary heap in which every hold has its index (``Hold.heap_index``).

Adding, removing or moving a hold reads about log2(n) others, and the earliest hold is the first. So a
decision on an account that ten thousand cards share costs about as much as on an account with ten holds.
"""

from __future__ import annotations

from engine.cards.hold import Hold


class Expiries(list[Hold]):
    """The heap. Two heaps are always equal: the account compares its holds, and the heap follows from
    them."""

    __slots__ = ()
    __hash__ = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Expiries)

    def __ne__(self, other: object) -> bool:
        return not self == other


def add(heap: Expiries, hold: Hold) -> None:
    """Add ``hold``. Holds added in the order of expiry read one other hold each."""
    heap.append(hold)
    _up(heap, len(heap) - 1, hold)


def remove(heap: Expiries, hold: Hold) -> None:
    """Remove ``hold``."""
    last = heap.pop()
    if last is not hold:
        _sift(heap, hold.heap_index, last)
    hold.heap_index = -1


def move(heap: Expiries, hold: Hold) -> None:
    """Move ``hold`` after a change of its expiry."""
    _sift(heap, hold.heap_index, hold)


def due(heap: Expiries, now_ms: int) -> list[Hold]:
    """Holds whose expiry has passed, the earliest first. Reads at most two other holds for each."""
    found: list[Hold] = []
    indexes, count = [0], len(heap)
    while indexes:
        index = indexes.pop()
        if index < count and heap[index].expires_ms <= now_ms:
            found.append(heap[index])
            indexes += (2 * index + 1, 2 * index + 2)
    found.sort(key=lambda hold: (hold.expires_ms, hold.id))
    return found


def _sift(heap: Expiries, index: int, hold: Hold) -> None:
    """Move ``hold`` up or down from the free index ``index`` to its position."""
    if index and heap[(index - 1) >> 1].expires_ms > hold.expires_ms:
        _up(heap, index, hold)
    else:
        _down(heap, index, hold)


def _up(heap: Expiries, index: int, hold: Hold) -> None:
    expires_ms = hold.expires_ms
    while index:
        above = (index - 1) >> 1
        parent = heap[above]
        if parent.expires_ms <= expires_ms:
            break
        heap[index] = parent
        parent.heap_index = index
        index = above
    heap[index] = hold
    hold.heap_index = index


def _down(heap: Expiries, index: int, hold: Hold) -> None:
    expires_ms, count = hold.expires_ms, len(heap)
    while (below := 2 * index + 1) < count:
        child = heap[below]
        if below + 1 < count and heap[below + 1].expires_ms < child.expires_ms:
            below += 1
            child = heap[below]
        if child.expires_ms >= expires_ms:
            break
        heap[index] = child
        child.heap_index = index
        index = below
    heap[index] = hold
    hold.heap_index = index
